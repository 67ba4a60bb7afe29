"""The values of requests that are about to be closed, as the control database and the logs may have them.

If a table is partitioned by its key, the paths of its files contain the value or its beginning, and plans of compaction
and retention list those paths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.engine.rows.redaction import revealing_fields
from lakewarden.erased_values import ErasedValues
from lakewarden.features.erasure.requests.current_names import find_table, tables_of
from lakewarden.features.shared.side_tables import is_beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table.metadata import TableMetadata

    from lakewarden.lifecycle.ground import Reader
    from lakewarden.records.erasure import ErasureRequest, HiddenKey


def values_of(lake: Reader, requests: Sequence[ErasureRequest]) -> ErasedValues:
    """All values of some open requests, under every name that their tables had or have."""
    ids = [request.id for request in requests]
    tables = {table for request in requests for table in tables_of(request)}
    own = {table for table in tables if not is_beside(table[0])}  # the others have the same values
    keys: list[HiddenKey] = []
    paths: dict[str, frozenset[str]] = {}
    names = set[str]()
    for asked, uuid in sorted(own or tables):
        hidden = lake.state.erasure.hidden(uuid, ids)
        found = find_table(lake, asked, uuid)
        names |= {asked, uuid, str(found or asked)}
        keys += hidden
        for name, spelled in spellings(lake.tables.load(found).metadata, hidden).items() if found else ():
            paths[name] = paths.get(name, frozenset()) | spelled
    return ErasedValues.of(
        ((key.kind, key.values) for key in keys), paths, names, any("case" in request.folding for request in requests)
    )


def spellings(metadata: TableMetadata, keys: Sequence[HiddenKey]) -> dict[str, frozenset[str]]:
    """How paths spell the values, by name of the partition field, before encoding."""
    found: dict[str, frozenset[str]] = {}
    for key in [KeyValues(key) for key in keys if key.values]:
        for name, field in revealing_fields(metadata, [key.field_id]):
            found[name] = found.get(name, frozenset()) | key.spelled(field.transform)
    return found
