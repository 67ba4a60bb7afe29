"""`IcebergCatalog`: tags, time travel and rollback under method names that Iceberg scripts often use.

    catalog = IcebergCatalog("lakewarden.yaml")
    catalog.tag_snapshot("gold", "customers", catalog.get_snapshot_id("gold", "customers"), "v1")
    len(catalog.time_travel_by_tag("gold", "customers", "v1"))

Everything is planned, applied, verified and journaled as through the other doors, and raises the same errors.
A namespace is written with dots (`a.b`), or as a tuple of its parts if a part contains a dot.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from lakewarden.errors import BadValue, VersionNotFound, did_you_mean
from lakewarden.quantities import to_millis
from lakewarden.warden import Warden, name_of

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame

Namespace = str | Sequence[str]
SnapshotId = int | str


class IcebergCatalog:
    """Tags, time travel and rollback of the tables of one installation."""

    def __init__(self, warden: Warden | str | Path | None = None) -> None:
        """Use a warden, or open one by the path of its configuration."""
        self.warden = warden if isinstance(warden, Warden) else Warden.open(warden)

    def tag_snapshot(
        self,
        namespace: Namespace,
        table_name: str,
        snapshot_id: SnapshotId | None,
        tag: str,
        retention_days: int | None = None,
    ) -> None:
        """Tag a snapshot, by default the current one, for some days from now; by default until the tag is removed."""
        keep = f"{retention_days}d" if retention_days is not None else None
        self.warden.version.tag(version_of(namespace, table_name, snapshot_id), tag, keep=keep).apply()

    @overload
    def time_travel(
        self, namespace: Namespace, table_name: str, snapshot_id: SnapshotId, engine: Literal["pandas"] = "pandas"
    ) -> pandas.DataFrame: ...

    @overload
    def time_travel(
        self, namespace: Namespace, table_name: str, snapshot_id: SnapshotId, engine: Literal["spark"]
    ) -> DataFrame: ...

    def time_travel(
        self, namespace: Namespace, table_name: str, snapshot_id: SnapshotId, engine: str = "pandas"
    ) -> pandas.DataFrame | DataFrame:
        """All rows of a snapshot: as a pandas DataFrame without a JVM, or as a Spark DataFrame."""
        version = version_of(namespace, table_name, snapshot_id)
        if engine == "pandas":
            return self.warden.arrow(version).to_pandas()
        if engine == "spark":
            return self.warden.dataframe(version)
        raise BadValue(f"engine {engine!r} is not supported", "Use pandas or spark.")

    @overload
    def time_travel_by_tag(
        self, namespace: Namespace, table_name: str, tag: str, engine: Literal["pandas"] = "pandas"
    ) -> pandas.DataFrame: ...

    @overload
    def time_travel_by_tag(
        self, namespace: Namespace, table_name: str, tag: str, engine: Literal["spark"]
    ) -> DataFrame: ...

    def time_travel_by_tag(
        self, namespace: Namespace, table_name: str, tag: str, engine: Any = "pandas"
    ) -> pandas.DataFrame | DataFrame:
        """All rows of a tag's snapshot, as in `time_travel`."""
        snapshot = self.get_snapshot_by_tag(namespace, table_name, tag)
        return self.time_travel(namespace, table_name, snapshot, engine)

    def get_snapshot_id(self, namespace: Namespace, table_name: str) -> int | None:
        """The current snapshot; none if the table is empty."""
        current: int | None = self.warden.table.show(version_of(namespace, table_name)).current_snapshot_id
        return current

    def get_snapshot_by_tag(self, namespace: Namespace, table_name: str, tag: str) -> int:
        """The snapshot of a tag."""
        shown = self.warden.table.show(version_of(namespace, table_name))
        tags = {ref.name: ref.snapshot_id for ref in shown.refs if ref.kind == "tag"}
        if tag not in tags:
            hint = did_you_mean(tag, tags, f"It has {', '.join(tags)}." if tags else "It has no tags.")
            raise VersionNotFound(f"{shown.table} has no tag {tag!r}", hint)
        return int(tags[tag])

    def list_snapshots(self, namespace: Namespace, table_name: str) -> list[dict[str, Any]]:
        """All snapshots, newest first: id, time, and the summary with the first tag under `tag`.

        Tags that a rollback has set come last. All of them are under `tags`.
        """
        from lakewarden.features.version.rollback import LEFT_BEHIND

        table = version_of(namespace, table_name)
        snapshots = {s.snapshot_id: s for s in self.warden.ground.tables.load(table).metadata.snapshots}
        listed = []
        for row in self.warden.version.list(table, limit=sys.maxsize):
            found = snapshots.get(row.snapshot_id)
            notes = dict(found.summary.additional_properties) if found is not None and found.summary else {}
            tags = sorted(row.tags, key=lambda tag: tag.startswith(LEFT_BEHIND))
            summary = {"operation": row.operation, **notes, **({"tag": tags[0]} if tags else {})}
            listed.append({**asdict(row), "timestamp_ms": to_millis(row.committed_at), "summary": summary})
        return listed

    def remove_tag(self, namespace: Namespace, table_name: str, tag: str) -> None:
        """Remove a tag; its snapshot stays until retention expires it."""
        self.warden.version.untag(version_of(namespace, table_name), tag).apply()

    def rollback_to_snapshot(self, namespace: Namespace, table_name: str, snapshot_id: SnapshotId) -> None:
        """Make another snapshot the current one, ancestor or not, with its columns; the replaced one is tagged.

        Refused if its columns cannot be restored: `warden.version.rollback` can leave the columns as they are.
        """
        version = version_of(namespace, table_name, snapshot_id)
        self.warden.version.rollback(version, not_ancestor=True, with_schema=True).apply()


def version_of(namespace: Namespace, table_name: str, snapshot_id: SnapshotId | None = None) -> str:
    """A table, or a snapshot of it, as the Warden expects it."""
    parts = namespace.split(".") if isinstance(namespace, str) else namespace
    return name_of((*parts, table_name), None if snapshot_id is None else str(snapshot_id))
