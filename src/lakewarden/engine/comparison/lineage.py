"""Row lineage of format v3: every row keeps its id and the number of the commit that changed it last.

A row that was only copied into another file, by an update of other rows or by a compaction, has both unchanged. So rows
with the same id and the same last update are equal, and their values need not be read. Columns are matched by field id
within one table, so this holds for every column that both versions have. A writer that does not keep lineage gives its
rows new ids; those are then compared by their values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.avro_files import first_row_ids_at
from lakewarden.engine.files.manifests import first_row_ids

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from lakewarden.engine.comparison.differing_files import FileDifference

Lineage = dict[str, tuple[int, int]]
"""By path, the id of a file's first row and its sequence number: what rows have that do not say otherwise."""


def lineage_of(table: Table, versions: tuple[Snapshot, Snapshot], files: FileDifference) -> Lineage:
    """The lineage of all files that differ; none if one has none, or if it would not help.

    It helps if files of both sides are read that the other side does not have.
    """
    rewritten = any(each.after is None for each in files.differing) and any(
        each.before is None for each in files.differing
    )
    if table.metadata.format_version < 3 or not rewritten:
        return {}
    starts: dict[str, int | None] = {}
    for version in versions:
        starts |= first_row_ids_at(table.io, version.manifest_list)
    wanted = {each.file.path: each.file for each in files.differing}
    found: Lineage = {}
    for manifest in {file.manifest for file in wanted.values()}:
        for path, first in first_row_ids(table.io, manifest, starts.get(manifest)):
            if path in wanted and first is not None:
                found[path] = first, wanted[path].added_in
    return found if len(found) == len(wanted) else {}
