"""Find and retire the partitions that a schema change left behind, from Python, through SQL only.

    from lakewarden import Warden, admin

    with Warden.open() as warden:
        print(admin.list_incompatible_partitions(warden))
        print(admin.retire_incompatible_partitions(warden, "log_entries"))

The client is anything with `query(sql)` that returns a pandas DataFrame: a warden, or a client of a server of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from lakewarden.errors import NotFound, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

_GROUP = ["view_set_name", "view_instance_id", "incompatible_schema_hash", "current_schema_hash"]
_LISTED = [*_GROUP, "partition_count", "total_size_bytes", "file_paths"]
_RETIRED = [*_GROUP[:2], "partitions_retired", "partitions_failed", "storage_freed_bytes", "retirement_messages"]
_IDENTITY = "p.view_set_name, p.view_instance_id, p.begin_insert_time, p.end_insert_time, p.file_schema_hash"
_INCOMPATIBLE = (
    "FROM list_partitions() AS p JOIN list_view_sets() AS v "
    "ON p.view_set_name = v.view_set_name AND p.file_schema_hash <> v.current_schema_hash"
)
_SIZE = re.compile(r": ([0-9]+) bytes$")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Client(Protocol):
    """What runs SQL."""

    def query(self, sql: str, /) -> pd.DataFrame: ...


def list_incompatible_partitions(client: Client, view_set_name: str | None = None) -> pd.DataFrame:
    """The partitions that were written with another schema than their view set has now, by instance and schema."""
    sql = (
        f"SELECT {_IDENTITY}, v.current_schema_hash AS current_schema_hash, p.file_size, p.file_path "
        f"{_INCOMPATIBLE}{_only(view_set_name)}"
    )
    rows = client.query(sql).rename(columns={"file_schema_hash": "incompatible_schema_hash"})
    _check_known(client, rows, view_set_name)
    found = []
    for group, some in _groups(rows, _GROUP):
        partitions = some[["begin_insert_time", "end_insert_time"]].drop_duplicates()
        paths = sorted(some["file_path"].dropna())
        found.append([*group, len(partitions), int(some["file_size"].sum()), paths])
    return _frame(found, _LISTED)


def retire_incompatible_partitions(client: Client, view_set_name: str | None = None) -> pd.DataFrame:
    """Retire them at once, each by its full identity. One that fails does not stop the others.

    `storage_freed_bytes` is the size of what left the current version. Its files are deleted when the versions before
    expire; until then `viewset restore` brings them back.
    """
    sql = (
        f"SELECT p.view_set_name, p.view_instance_id, retire_partition_by_metadata({_IDENTITY}) AS message "
        f"{_INCOMPATIBLE}{_only(view_set_name)} GROUP BY {_IDENTITY}"
    )
    rows = client.query(sql)
    _check_known(client, rows, view_set_name)
    found = []
    for group, some in _groups(rows, _GROUP[:2]):
        messages = list(some["message"])
        retired = [text for text in messages if text.startswith("SUCCESS")]
        freed = sum(int(size[1]) for text in retired if (size := _SIZE.search(text)))
        found.append([*group, len(retired), len(messages) - len(retired), freed, messages])
    return _frame(found, _RETIRED)


def _only(view_set_name: str | None) -> str:
    """A condition; a name that no view set can have matches none, and never becomes part of the SQL."""
    if view_set_name is None:
        return ""
    return f" AND p.view_set_name = '{view_set_name}'" if _NAME.fullmatch(view_set_name) else " AND 1 = 0"


def _check_known(client: Client, rows: pd.DataFrame, view_set_name: str | None) -> None:
    """Refuse a view set that does not exist: no rows would look as if nothing were incompatible."""
    if view_set_name is None or len(rows):
        return
    known = [str(name) for name in client.query("SELECT view_set_name FROM list_view_sets()")["view_set_name"]]
    if view_set_name not in known:
        there = f"There are: {', '.join(sorted(known))}." if known else "There are none."
        raise NotFound(f"no view set {view_set_name}", did_you_mean(view_set_name, known, there))


def _groups(rows: pd.DataFrame, by: list[str]) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    return iter(rows.groupby(by, sort=True)) if len(rows) else iter(())


def _frame(rows: list[list[Any]], columns: list[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=columns)
