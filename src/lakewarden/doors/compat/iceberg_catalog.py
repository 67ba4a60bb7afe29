"""`IcebergCatalog`: versions of tables by method names that scripts around Iceberg catalogs often use.

    catalog = IcebergCatalog("lakewarden.yaml")
    catalog.tag_snapshot("sales", "orders", "v1", retention_days=90)
    catalog.time_travel_by_tag("sales", "orders", "v1").count()

Everything is planned, applied, verified and journaled as by the other doors, and fails with the same errors.
A namespace is written with dots (`a.b`); one whose own name holds a dot is given as a tuple of its parts.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.errors import VersionNotFound, did_you_mean
from lakewarden.warden import Warden, name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Namespace = str | Sequence[str]


class IcebergCatalog:
    """Tags, time travel and rollback of the tables of one installation."""

    def __init__(self, warden: Warden | str | Path | None = None) -> None:
        """Take a warden, or open one by the path of its configuration."""
        self._warden = warden if isinstance(warden, Warden) else Warden.open(warden)

    def tag_snapshot(
        self,
        namespace: Namespace,
        table: str,
        tag: str,
        snapshot_id: int | None = None,
        retention_days: int | None = None,
    ) -> None:
        """Tag a snapshot, or the current one; without `retention_days` the tag stays until it is removed."""
        keep = f"{retention_days}d" if retention_days is not None else None
        self._warden.version.tag(_version(namespace, table, snapshot_id), tag, keep=keep).apply()

    def time_travel_by_tag(self, namespace: Namespace, table: str, tag: str) -> DataFrame:
        """The table as it was when it was tagged, as a Spark DataFrame."""
        return self._warden.dataframe(_version(namespace, table, self.get_snapshot_by_tag(namespace, table, tag)))

    def get_snapshot_id(self, namespace: Namespace, table: str) -> int | None:
        """The current snapshot; none where nothing has been written yet."""
        current: int | None = self._warden.table.show(_version(namespace, table)).current_snapshot_id
        return current

    def get_snapshot_by_tag(self, namespace: Namespace, table: str, tag: str) -> int:
        """The snapshot that a tag stands for."""
        shown = self._warden.table.show(_version(namespace, table))
        tags = {ref.name: ref.snapshot_id for ref in shown.refs if ref.kind == "tag"}
        if tag not in tags:
            hint = did_you_mean(tag, tags, f"It has {', '.join(tags)}." if tags else "It has no tags.")
            raise VersionNotFound(f"{shown.table} has no tag {tag!r}", hint)
        return int(tags[tag])

    def list_snapshots(self, namespace: Namespace, table: str) -> list[dict[str, Any]]:
        """Every snapshot, newest first, with its tags and branches."""
        rows = self._warden.version.list(_version(namespace, table), limit=sys.maxsize)
        return [asdict(row) for row in rows]

    def remove_tag(self, namespace: Namespace, table: str, tag: str) -> None:
        """Take a tag away; its snapshot stays until retention expires it."""
        self._warden.version.untag(_version(namespace, table), tag).apply()

    def rollback_to_snapshot(self, namespace: Namespace, table: str, snapshot_id: int) -> None:
        """Make an earlier snapshot the current one; the one left behind stays under a tag."""
        self._warden.version.rollback(_version(namespace, table, snapshot_id)).apply()


def _version(namespace: Namespace, table: str, snapshot_id: int | None = None) -> str:
    parts = namespace.split(".") if isinstance(namespace, str) else namespace
    return name_of((*parts, table), None if snapshot_id is None else str(snapshot_id))
