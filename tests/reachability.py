"""What is in a table's folder, and what its metadata leads to, found out with plain PyIceberg and a walk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.small_lake import SmallLake

QUARANTINE = "_lakewarden"


def on_disk(location: str) -> Path:
    """The path of a file: address, however its slashes are written."""
    return Path(unquote(urlsplit(location).path))


def files_in(table: Any) -> dict[Path, int]:
    """Every file below a table's location that is not in quarantine, with its size."""
    folder = on_disk(table.metadata.location)
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".crc"))
    return {path: path.stat().st_size for path in found if QUARANTINE not in path.relative_to(folder).parts}


def in_quarantine(table: Any) -> dict[str, int]:
    """Files in quarantine by their size, named as they were before they came there."""
    folder = on_disk(table.metadata.location) / QUARANTINE
    return {path.name.partition("-")[2]: path.stat().st_size for path in folder.rglob("files/*") if path.is_file()}


def reachable(table: Any, snapshots: Iterable[int] | None = None) -> set[Path]:
    """What these snapshots lead to, or all of them: lists, manifests, live files and statistics."""
    metadata, found = table.metadata, set[str]()
    ids = {s.snapshot_id for s in metadata.snapshots} if snapshots is None else set(snapshots)
    for snapshot in metadata.snapshots:
        if snapshot.snapshot_id in ids:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=True)}
    told = [*metadata.statistics, *metadata.partition_statistics]
    found |= {statistics.statistics_path for statistics in told if statistics.snapshot_id in ids}
    return {on_disk(location) for location in found}


def own_metadata(table: Any) -> set[Path]:
    """The table's metadata file, and the earlier ones that it has a record of."""
    return {on_disk(table.metadata_location), *(on_disk(e.metadata_file) for e in table.metadata.metadata_log)}


def orphans(table: Any) -> set[Path]:
    """Files outside of quarantine that nothing leads to."""
    return set(files_in(table)) - reachable(table) - own_metadata(table)


def days_later(lake: SmallLake, days: float) -> None:
    """Let an installation believe that some days have passed."""
    lake.warden.ground.clock = lambda: datetime.now(UTC) + timedelta(days=days)
    lake.warden.__dict__.pop("runner", None)


def aged(lake: SmallLake, name: str, days: float) -> None:
    """Let all that a table has seen so far have happened some days earlier."""
    table, back = lake.catalog.load_table(name), int(days * 86_400_000)
    file = on_disk(table.metadata_location)
    document = json.loads(file.read_text())
    document["last-updated-ms"] -= back
    for entry in [*document["snapshots"], *document["snapshot-log"], *document["metadata-log"]]:
        entry["timestamp-ms"] -= back
    file.write_text(json.dumps(document))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)  # Spark's own checksum, which is of what was there


def ids_at(lake: SmallLake, name: str, ref: str | int) -> list[int]:
    """What a version holds, read by PyIceberg."""
    table = lake.catalog.load_table(name)
    at = ref if isinstance(ref, int) else table.metadata.refs[ref].snapshot_id
    return sorted(table.scan(snapshot_id=at).to_arrow()["id"].to_pylist())
