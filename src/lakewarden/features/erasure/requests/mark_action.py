"""Keeps the marks of tables in step with their open requests: the last request to end takes its table's mark with it.

No lock is held between the control database and the storage. A registration first adds its request and then leaves the
mark; `settle_mark` first settles the mark and then looks at the requests again. So whichever comes last sees the other,
and a request that is registered at the same moment has its mark. A process that is killed in between leaves a mark that
is not needed, or one missing: a resumed run and the next `policy run` settle it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakewarden.engine.storage.erasure_mark import leave_mark, read_mark, remove_mark
from lakewarden.errors import LakewardenError
from lakewarden.features.erasure.requests.current_names import find_table, tables_of
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.records.erasure import ErasureState

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import ErasureRequest

log = logging.getLogger(__name__)

MARK = "mark"


def unmark(lake: Writer, requests: Sequence[ErasureRequest]) -> None:
    """Settle the marks of all tables of requests that have just ended. What fails is left to `policy run`."""
    for asked, uuid in dict.fromkeys(place for request in requests for place in tables_of(request)):
        try:
            name = find_table(lake, asked, uuid)
            if name is not None:
                settle_mark(lake, name)
        except LakewardenError as error:
            log.warning("%s keeps the mark of its erasure requests: %s", asked, error)


def unmark_ended(action: Action, lake: Writer) -> None:
    """As `unmark`, for the requests of an action that have ended; for `tidy`."""
    named = action.texts("requests") if "requests" in action.arguments else (str(action.arguments["request"]),)
    unmark(lake, [each for each in lake.state.erasure.many(named) if each.state is not ErasureState.OPEN])


def settle_mark(lake: Writer, name: TableName) -> None:
    """Mark a table that has open requests, and remove the mark of one that has none."""
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    control = lake.state.erasure.identity()
    if not _has_open(lake, table) and remove_mark(storage, table, control):
        reach("mark.removed")
    if _has_open(lake, table):
        leave_mark(storage, table, control)


def missettled(lake: Reader, name: TableName, table: Table) -> Action | None:
    """The action that settles a table's mark, if that is needed. Marks of other control databases are not ours."""
    if _is_settled(lake, name, table):
        return None
    uuid = str(table.metadata.table_uuid)
    says = "leave the mark of its open" if _has_open(lake, table) else "remove the mark of its ended"
    return Action(
        verb=MARK,
        subject=str(name),
        lease=table_lease(uuid),
        says=f"{says} erasure requests",
        arguments={"uuid": uuid},
        requires=(TableIs(str(name), uuid),),
    )


def holds(action: Action, lake: Reader) -> bool:
    name = lake.tables.name(action.subject)
    return _is_settled(lake, name, lake.tables.load(name))


def apply(action: Action, lake: Writer) -> Outcome:
    settle_mark(lake, lake.tables.name(action.subject))
    return Outcome()


def _is_settled(lake: Reader, name: TableName, table: Table) -> bool:
    mark = read_mark(lake.storage(name.lake), table)
    if mark is not None and mark.control != lake.state.erasure.identity():
        return True
    return (mark is not None) is _has_open(lake, table)


def _has_open(lake: Reader, table: Table) -> bool:
    return bool(lake.state.erasure.list([ErasureState.OPEN], str(table.metadata.table_uuid)))
