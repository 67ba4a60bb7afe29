"""The mark that an erasure request leaves at a table: which control database knows the hidden rows.

Only the control database knows which rows are hidden. If the configuration named another database, or a missing file,
nothing would be hidden and nobody would notice. So the table has a mark, an object in Lakewarden's folder at its
location that contains no values. Reads are refused if the mark names another control database. It goes with the last
request, so that a control database that is lost later locks no table in which nothing is hidden.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.storage.quarantine import OWN_FOLDER
from lakewarden.errors import LakewardenError, StateUnavailable, StorageUnavailable
from lakewarden.lifecycle.basics import Check

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.storage.storage import Storage, StoredFiles

_PART = "erasure"
_FEW = 5  # tables listed by the doctor


@dataclass(frozen=True)
class Mark:
    """The control database with requests for a table, which is identified by its UUID."""

    uuid: str
    control: str


def place_of(table: Table) -> str:
    return f"{table.metadata.location.rstrip('/')}/{OWN_FOLDER}/erasure.json"


def read_mark(storage: StoredFiles, table: Table) -> Mark | None:
    """The table's mark, if it has one."""
    place = place_of(table)
    if storage.look([place])[place] is None:
        return None
    try:
        found = json.loads(storage.read(place))
        mark = Mark(str(found["uuid"]), str(found["control"]))
    except (ValueError, KeyError, TypeError):
        return Mark(
            str(table.metadata.table_uuid), ""
        )  # damaged: matches no database, so that nothing is shown by mistake
    return mark if mark.uuid == str(table.metadata.table_uuid) else None


def leave_mark(storage: Storage, table: Table, control: str) -> None:
    """Mark a table, unless it is marked already."""
    if read_mark(storage, table) is None:
        place = place_of(table)
        storage.make_folder(place.rpartition("/")[0])
        storage.write(place, json.dumps({"uuid": str(table.metadata.table_uuid), "control": control}).encode())


def remove_mark(storage: Storage, table: Table, control: str) -> bool:
    """Remove a table's mark with all its versions, unless another control database left it."""
    mark, place = read_mark(storage, table), place_of(table)
    if mark is None or mark.control != control:
        return False
    removed = storage.erase_all([place])
    if removed.failed:
        raise StorageUnavailable(f"{place} cannot be deleted: {removed.failed[0][1]}", "Delete it, or allow it.")
    return True


def refuse_foreign_mark(storage: StoredFiles, name: TableName | str, table: Table, control: str) -> None:
    """Refuse if requests for a table are registered in a control database other than the current one."""
    mark = read_mark(storage, table)
    if mark is not None and mark.control != control:
        raise StateUnavailable(
            f"{name}: its erasure requests are registered in a control database other than the configured one",
            "Set `state` in lakewarden.yaml to that one. --raw also reads hidden rows. If that database is "
            f"permanently lost, delete {place_of(table)} and register the requests again.",
        )


@dataclass(frozen=True)
class MarkProbe:
    """Checks for `lake doctor` whether tables are marked by another control database."""

    tables: Tables
    storage: Callable[[str], StoredFiles]
    control: Callable[[], str]

    def __call__(self) -> Sequence[Check]:
        try:
            control = self.control()
            refused = [found for found in self.tables.read_all(self.tables.names(), self._look(control)) if found]
        except LakewardenError as error:
            return [
                Check(_PART, "warning", f"it is unknown whether hidden rows stay hidden: {error.message}", error.hint)
            ]
        if refused:
            named = ", ".join(name for name, _ in refused[:_FEW]) + (", …" if refused[_FEW:] else "")
            count = "1 table has" if len(refused) == 1 else f"{len(refused):,} tables have"
            found = f"{count} requests in another control database, and cannot be read: {named}"
            return [Check(_PART, "failed", found, refused[0][1])]
        return [Check(_PART, "ok", "no table has requests in another control database")]

    def _look(self, control: str) -> Callable[[TableName], tuple[str, str] | None]:
        def look(name: TableName) -> tuple[str, str] | None:
            try:
                table = self.tables.load(name)
                refuse_foreign_mark(self.storage(name.lake), name, table, control)
            except StateUnavailable as error:
                return str(name), error.hint
            except LakewardenError:
                return None  # an unreadable table shows no rows
            return None

        return look
