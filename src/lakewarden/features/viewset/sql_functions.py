"""View sets in SQL: their lists, one instance of one, and what materializes, regenerates and retires partitions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.table_name import parse_time
from lakewarden.engine.sql.queries import Selected
from lakewarden.errors import BadValue, BrokenTable, Interrupted, LakewardenError, UnsupportedTable
from lakewarden.features.shared.sql_function import ChangeFunction, ListFunction, Operate, ReadFunction
from lakewarden.features.viewset.catalogue import PartitionRow, identity_text, partitions
from lakewarden.features.viewset.definition import BEGIN, END, HASH, INSTANCE, all_view_sets, view_set
from lakewarden.features.viewset.list import List, ViewSetRow
from lakewarden.features.viewset.materialize import Materialize
from lakewarden.features.viewset.partitions import Partitions
from lakewarden.features.viewset.reading import selection
from lakewarden.features.viewset.regenerate import Regenerate
from lakewarden.features.viewset.retire import Retire
from lakewarden.features.viewset.retiring import Taken, taken_by

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.report import Report

log = logging.getLogger(__name__)
Arguments = Sequence[Any]


def _materialize(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    return _told(*operate(Materialize(**_range(*rows[0]))))


def _regenerate(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    return _told(*operate(Regenerate(**_range(*rows[0]))))


def _retire(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    name, instance, begin, end = rows[0]
    return _told(*operate(Retire(name=str(name), instance=str(instance), begin=_time(begin), end=_time(end))))


@dataclass(frozen=True)
class _Wanted:
    """A partition that is to be retired, as a statement names it."""

    key: str
    """Its path, or its identity as text."""
    shown: str
    view_set: str | None = None
    """None if there is no such partition."""
    wrong: str = ""


def _retire_by_file(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    known = {row.file_path: row.view_set_name for row in _readable(lake) if row.file_path is not None}
    paths = ["NULL" if path is None else str(path) for (path,) in rows]
    wanted = [_Wanted(path, path, known.get(path)) for path in paths]
    done = _retired(lake, operate, "file", wanted)
    return [text for text, _ in done]


def _retire_by_metadata(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    names = {str(given[0]) for given in rows}
    there = {(row.view_set_name, row.identity_text) for row in _readable(lake, names)}
    wanted = []
    for given in rows:
        name, instance, begin, end, schema_hash = ("NULL" if value is None else _time(value) for value in given)
        shown = f"{name}/{instance} from {begin} to {end} with schema {schema_hash}"
        bounds = {BEGIN: parse_time(begin), END: parse_time(end)}
        if None in bounds.values():
            wanted.append(_Wanted(shown, shown, wrong=f"{begin if bounds[BEGIN] is None else end} is not a time"))
            continue
        identity = identity_text({INSTANCE: instance, HASH: schema_hash, **bounds})
        is_there = None not in given and (name, identity) in there
        wanted.append(_Wanted(identity, shown, name if is_there else None))
    done = _retired(lake, operate, "identity", wanted)
    return [text if size is None else f"{text}: {size} bytes" for text, size in done]


def _readable(lake: Reader, names: Collection[str] | None = None) -> Iterator[PartitionRow]:
    """The partitions of view sets, without those whose metadata is damaged: they do not stop the others."""
    for view in all_view_sets(lake):
        try:
            yield from partitions(lake, view) if names is None or view.name in names else ()
        except (BrokenTable, UnsupportedTable) as error:
            log.warning("partitions of %s cannot be listed: %s", view.name, error)


def _retired(lake: Reader, operate: Operate, field: str, wanted: Sequence[_Wanted]) -> Iterator[tuple[str, int | None]]:
    """Retire partitions, those of a view set by one operation; a text for each, and the size of what left."""
    errors: dict[str, str] = {}
    retired: dict[str, int] = {}
    verb = "SUCCESS: Retired"
    for name in dict.fromkeys(one.view_set for one in wanted if one.view_set is not None):
        keys = list(dict.fromkeys(one.key for one in wanted if one.view_set == name))
        try:
            _, report = operate(Retire(**{"name": name, field: keys}))
        except Interrupted:
            raise
        except LakewardenError as error:  # one failure does not stop the rest
            errors[name] = error.message
            continue
        if report is None:
            verb = "PLANNED: would retire"
            retired |= dict.fromkeys(keys, 0)
        else:
            retired |= _sizes(taken_by(lake, view_set(lake, name), report.id or ""))
    done = set[str]()
    for one in wanted:
        if one.wrong or one.view_set in errors:
            yield f"ERROR: {one.wrong or errors[one.view_set or '']}", None
        elif one.key in done or one.key not in retired:
            yield f"ERROR: Partition not found: {one.shown}", None
        else:
            yield f"{verb} partition {one.shown}", retired[one.key]
        done.add(one.key)


def _sizes(taken: Taken) -> dict[str, int]:
    """By file and by partition, how large what left was."""
    found = dict.fromkeys(taken.empty, 0)
    for row in taken.rows:
        for key in (str(row.file_path), row.identity_text):
            found[key] = found.get(key, 0) + row.file_size
    return found


def _told(plan: Plan, report: Report | None) -> list[str]:
    if not plan.actions:
        return ["nothing to do"]
    told = [action.says for action in plan.actions]
    if report is None:
        return told
    facts = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report.result.items())
    return [*told, *plan.warnings, f"{report.state} {report.id}: {facts}"]


def _range(name: Any, begin: Any, end: Any, delta_seconds: Any) -> dict[str, Any]:
    try:
        delta = timedelta(seconds=float(delta_seconds))
    except (TypeError, ValueError, OverflowError):
        raise BadValue(f"delta_seconds is {delta_seconds}", "It is the length of a partition in seconds.") from None
    return {"name": str(name), "begin": _time(begin), "end": _time(end), "delta": delta}


def _time(value: Any) -> str:
    """A time as the requests take it; one without a zone is in UTC."""
    if not isinstance(value, datetime):
        return str(value)
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _table(lake: Reader, arguments: Sequence[str]) -> str:
    return str(view_set(lake, arguments[0]).table_name)


def _instance(lake: Reader, arguments: Sequence[str]) -> Selected:
    _, instance = arguments
    version = lake.tables.resolve(_table(lake, arguments))
    found = selection(lake, version, instance)
    assert found is not None
    return Selected(version, found.only, found.columns, found.left_out)


_RANGE = ("view_set", "begin", "end", "delta_seconds")
FUNCTIONS = (
    ListFunction("list_view_sets", List, ViewSetRow),
    ListFunction("list_partitions", Partitions, PartitionRow),
    ReadFunction("view_instance", ("view_set", "instance"), _table, _instance),
    ChangeFunction("materialize_partitions", _RANGE, _materialize),
    ChangeFunction("regenerate_partitions", _RANGE, _regenerate),
    ChangeFunction("retire_partitions", ("view_set", "instance", "begin", "end"), _retire),
    ChangeFunction("retire_partition_by_file", ("path",), _retire_by_file, by_row=True),
    ChangeFunction(
        "retire_partition_by_metadata",
        ("view_set", "instance", "begin", "end", "file_schema_hash"),
        _retire_by_metadata,
        by_row=True,
    ),
)
