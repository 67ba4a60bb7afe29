"""View sets in SQL: their lists, one instance of one, and what materializes, regenerates and retires partitions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from lakewarden.engine.sql.queries import Selected
from lakewarden.errors import BadValue, LakewardenError
from lakewarden.features.shared.sql_function import ChangeFunction, ListFunction, Operate, ReadFunction
from lakewarden.features.viewset.catalogue import PartitionRow, identity_text, partitions
from lakewarden.features.viewset.definition import BEGIN, END, HASH, INSTANCE, all_view_sets, view_set
from lakewarden.features.viewset.list import List, ViewSetRow
from lakewarden.features.viewset.materialize import Materialize
from lakewarden.features.viewset.partitions import Partitions
from lakewarden.features.viewset.reading import selection
from lakewarden.features.viewset.regenerate import Regenerate
from lakewarden.features.viewset.retire import Retire

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader
    from lakewarden.lifecycle.plan import Plan
    from lakewarden.lifecycle.report import Report

Arguments = Sequence[Any]


def _materialize(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    return _told(*operate(Materialize(**_range(*rows[0]))))


def _regenerate(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    return _told(*operate(Regenerate(**_range(*rows[0]))))


def _retire(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    name, instance, begin, end = rows[0]
    return _told(*operate(Retire(name=str(name), instance=str(instance), begin=_time(begin), end=_time(end))))


def _retire_by_file(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    wanted = [str(path) for (path,) in rows]
    names = {
        row.file_path: view.name
        for view in all_view_sets(lake)
        for row in partitions(lake, view)
        if row.file_path is not None
    }
    return _retired(operate, "file", [(names.get(path), path, path) for path in wanted])


def _retire_by_metadata(lake: Reader, operate: Operate, rows: Sequence[Arguments]) -> list[str]:
    there: dict[str, set[str]] = {}
    wanted: list[tuple[str | None, str, str]] = []
    for name, instance, begin, end, schema_hash in rows:
        if name not in there:
            known = [view for view in all_view_sets(lake) if view.name == name]
            there[name] = {row.identity_text for view in known for row in partitions(lake, view)}
        bounds = {BEGIN: datetime.fromisoformat(_time(begin)), END: datetime.fromisoformat(_time(end))}
        identity = identity_text({INSTANCE: instance, HASH: schema_hash, **bounds})
        shown = f"{name}/{instance} from {_time(begin)} to {_time(end)} with schema {schema_hash}"
        wanted.append((name if identity in there[name] else None, identity, shown))
    return _retired(operate, "identity", wanted)


def _retired(operate: Operate, field: str, wanted: Sequence[tuple[str | None, str, str]]) -> list[str]:
    """Retire partitions, those of a view set by one operation; a text for each.

    `wanted` has the view set of each (None if there is no such partition), its key and how it is shown.
    """
    errors: dict[str, str] = {}
    for name in dict.fromkeys(name for name, _, _ in wanted if name is not None):
        keys = list(dict.fromkeys(key for one, key, _ in wanted if one == name))
        try:
            operate(Retire(**{"name": name, field: keys}))
        except LakewardenError as error:  # one failure does not stop the rest
            errors[name] = error.message
    told, done = [], set[str]()
    for owner, key, shown in wanted:
        if owner is None or key in done:
            told.append(f"ERROR: Partition not found: {shown}")
        else:
            told.append(f"ERROR: {errors[owner]}" if owner in errors else f"SUCCESS: Retired partition {shown}")
        done.add(key)
    return told


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
    except (TypeError, ValueError):
        raise BadValue(f"delta_seconds is {delta_seconds}", "It is the length of a partition in seconds.") from None
    return {"name": str(name), "begin": _time(begin), "end": _time(end), "delta": delta}


def _time(value: Any) -> str:
    """A time as the requests take it; one without a zone is in UTC."""
    if not isinstance(value, datetime):
        return str(value)
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _instance(lake: Reader, arguments: Sequence[str]) -> Selected:
    name, instance = arguments
    version = lake.tables.resolve(str(view_set(lake, name).table_name))
    found = selection(lake, version, instance)
    assert found is not None
    return Selected(version, found.only, found.columns, found.left_out)


_RANGE = ("view_set", "begin", "end", "delta_seconds")
FUNCTIONS = (
    ListFunction("list_view_sets", List, ViewSetRow),
    ListFunction("list_partitions", Partitions, PartitionRow),
    ReadFunction("view_instance", ("view_set", "instance"), _instance),
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
