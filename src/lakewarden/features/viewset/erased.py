"""What an erasure from a view set's own table leaves of its partitions: their identities, unless those name a person.

Partitions that lose all rows stay listed, so that `materialize` does not write them again. Those of an instance that an
erased value names are forgotten, with all versions of the list of partitions without rows that name it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lakewarden.engine.commit.expired_versions import Expiry
from lakewarden.engine.files.reachable import own_places
from lakewarden.engine.files.unreachable import still_unreachable, unreachable_after
from lakewarden.errors import TableNotFound
from lakewarden.features.viewset.catalogue import partitions
from lakewarden.features.viewset.definition import BEGIN, END, HASH, INSTANCE, SOURCE_HASH, UPDATED, ViewSet
from lakewarden.features.viewset.writing import change_empty, rows_at, stored_identity

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Writer


def keep_identities(lake: Writer, view: ViewSet, going: Collection[str], erased: Collection[str]) -> None:
    """Record partitions whose last rows are about to be erased with these files, as partitions without rows.

    They are recorded first and count only once their files are gone, so a crash in between does no harm. Instances that
    erased values name are removed from the list.
    """
    rows = partitions(lake, view)
    staying = {row.identity for row in rows if row.file_path not in going}
    new = {
        row.identity_text: {
            INSTANCE: row.view_instance_id,
            BEGIN: row.begin_insert_time,
            END: row.end_insert_time,
            HASH: row.file_schema_hash,
            SOURCE_HASH: row.source_data_hash,
            UPDATED: row.updated,
        }
        for row in rows
        if row.identity not in staying and row.view_instance_id not in erased
    }
    change_empty(
        lake,
        view,
        lambda rows: [
            *(row for row in rows if stored_identity(view, row) not in new and row[INSTANCE] not in erased),
            *new.values(),
        ],
    )


def forget_versions(lake: Writer, view: ViewSet, erased: Collection[str]) -> None:
    """Expire earlier versions of the list of partitions without rows, with their files, if one names an instance."""
    try:
        table = lake.tables.load(view.empty_table)
    except TableNotFound:
        return
    in_use = {ref.snapshot_id for ref in table.metadata.refs.values()}
    going = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in in_use]
    if not any(row[INSTANCE] in erased for version in going for row in rows_at(view, table, version).values()):
        return
    files = [file.path for file in unreachable_after(table, going).files]
    uuid = str(table.metadata.table_uuid)
    lake.part("forgotten").commits.publish(Expiry(view.empty_table, uuid, tuple(going)))
    table = lake.tables.load(view.empty_table)
    lake.storage(view.table_name.lake).erase_all(still_unreachable(table, files), own_places(table))
