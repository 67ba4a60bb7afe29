"""Checkpoints of backfills that are values to erase, in tables that a request is not about: only their source is.

A batch's stamp names the tuple at which it ends. It is in the summary of a version of the target, and in a property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import BACKFILL, checkpoint_values
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.asked_values import are_at, asked_values
from lakewarden.features.erasure.requests.current_names import current_name, tables_of
from lakewarden.features.erasure.requests.keys_beside import made_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import HiddenKey


def keys_of_requests(lake: Reader, requests: Sequence[str]) -> list[HiddenKey]:
    """All values of some requests, whichever table they are about."""
    uuids = {uuid for request in lake.state.erasure.many(requests) for _, uuid in tables_of(request)}
    return [key for uuid in sorted(uuids) for key in lake.state.erasure.hidden(uuid, requests)]


def checkpoints_elsewhere(lake: Reader, requests: Sequence[str]) -> dict[TableName, frozenset[int]]:
    """Other tables that were made of those of the requests and whose stamps have a value, with the versions that do."""
    tables = {table for request in lake.state.erasure.many(requests) for table in tables_of(request)}
    uuids = {uuid for _, uuid in tables}
    asked = {name for table, uuid in tables for name in (table, current_name(lake, table, uuid))}
    values = asked_values(lake, lake.state.erasure.many(requests))

    def look(name: TableName) -> frozenset[int] | None:
        try:
            table = lake.tables.load(name)
        except LakewardenError:  # dropped meanwhile, or not readable by anybody
            return None
        if str(table.metadata.table_uuid) in uuids:
            return None
        versions = stamped_versions(table, values)
        is_stamped = versions or _has(table.metadata.properties, values)
        return versions if is_stamped and made_of(table, asked) else None

    names = lake.tables.names()
    found = zip(names, lake.tables.read_all(names, look), strict=True)
    return {name: versions for name, versions in found if versions is not None}


def stamped_versions(table: Table, asked: Sequence[AskedValues]) -> frozenset[int]:
    """The snapshots whose stamps have one of these values."""
    return frozenset(one.snapshot_id for one in table.metadata.snapshots if _has(notes_of(one), asked))


def _has(notes: Mapping[str, str], asked: Sequence[AskedValues]) -> bool:
    stamps: Iterable[str] = (text for name, text in notes.items() if name.startswith(BACKFILL))
    return any(are_at(asked, *placed) for stamp in stamps for placed in checkpoint_values(stamp))
