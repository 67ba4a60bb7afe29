"""Which requests are due, and in which tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.errors import BadValue, Conflict
from lakewarden.features.erasure.requests.current_names import current_name
from lakewarden.features.shared.side_tables import is_kept
from lakewarden.lifecycle.ground import Reader
from lakewarden.records.erasure import ErasureRequest, ErasureState


@dataclass(frozen=True)
class Due:
    """A table, by its current name, and the requests that are due in it."""

    table: str
    uuid: str
    requests: tuple[ErasureRequest, ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(sorted(request.id for request in self.requests))


@dataclass(frozen=True)
class Agenda:
    """What is due, and notes on requests that are not due yet."""

    tables: tuple[Due, ...]
    waiting: tuple[str, ...]


def agenda(lake: Reader, table: str | None, all: bool, requests: Sequence[str], now: bool) -> Agenda:
    """What is due in one table and tables beside others, in all tables, or for some requests.

    With `now`, that includes what is in its grace period.
    """
    if all and (table is not None or requests):
        raise BadValue("--all excludes TABLE and --request", "Remove TABLE and --request, or --all.")
    if not all and table is None and not requests:
        raise BadValue("no requests were selected", "lakewarden erasure purge TABLE, or --all, or --request ID")
    uuid = str(lake.tables.load(table).metadata.table_uuid) if table is not None else ""
    names = {uuid: str(lake.tables.name(table))} if table is not None else {}
    found = _open(lake, uuid, requests)
    moment = lake.clock()
    waits = [request for request in found if request.waits(moment) and not now]
    notes = [
        f"request {request.id} waits until {request.grace_until:%Y-%m-%d %H:%M}Z; --now erases it anyway"
        for request in waits
    ]
    left_out = {request.id for request in waits}
    due = [request for request in found if request.id not in left_out]
    tables: dict[str, list[ErasureRequest]] = {}
    for request in reversed(due):  # oldest first
        wanted = (key for key in request.keys if uuid in ("", key.uuid) or is_kept(key.table, key.path))
        for key in {key.uuid: key for key in wanted}.values():
            if key.uuid not in names:
                names[key.uuid] = current_name(lake, key.table, key.uuid)
            tables.setdefault(key.uuid, []).append(request)
    return Agenda(tuple(Due(names[id], id, tuple(some)) for id, some in sorted(tables.items())), tuple(notes))


def named_open(lake: Reader, requests: Sequence[str], hint: str) -> list[ErasureRequest]:
    """The requests with these ids; an error if one is not open."""
    named = lake.state.erasure.many(list(dict.fromkeys(requests)))
    ended = [request for request in named if request.state is not ErasureState.OPEN]
    if ended:
        raise Conflict(f"request {ended[0].id} is already {ended[0].state}", hint)
    return named


def _open(lake: Reader, uuid: str, requests: Sequence[str]) -> list[ErasureRequest]:
    if not requests:
        return lake.state.erasure.list([ErasureState.OPEN], uuid)
    named = named_open(lake, requests, "Only open requests can be purged.")
    if uuid and (others := [request for request in named if all(key.uuid != uuid for key in request.keys)]):
        raise BadValue(f"request {others[0].id} is not about that table", "lakewarden erasure show lists its tables.")
    return named
