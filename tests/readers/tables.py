"""Tables of every type that have been through a lot, and the rows that each of their branches and tags must show.

What is expected is known from what was written, not from reading: each row is kept by the columns that were there
when it was written, under keys that no renaming changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

from tests.features.erasure.independent_rows import read_metadata
from tests.readers.cells import Fields
from tests.readers.engines import Ref
from tests.small_lake import SmallLake

Row = dict[str, Any]


@dataclass
class Table:
    """One table of a lake, and the rows of each of its refs."""

    lake: SmallLake
    name: str
    make_row: Callable[[int], Row]
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"main": []})
    keys: dict[int, str] = field(default_factory=dict)  # what a column was called first, by its id

    def sql(self, statement: str) -> list[Any]:
        """Run a statement on Spark, with {t} for the table."""
        return list(self.lake.warden.ground.spark.sql(statement.replace("{t}", f"main.{self.name}")).collect())

    @property
    def metadata_location(self) -> str:
        return str(self.lake.catalog.load_table(self.name).metadata_location)

    @property
    def metadata(self) -> dict[str, Any]:
        return read_metadata(self.metadata_location)

    @property
    def refs(self) -> list[Ref]:
        location, document = self.metadata_location, self.metadata
        return [
            Ref(self.name, name, ref["type"], ref["snapshot-id"], location) for name, ref in document["refs"].items()
        ]

    def fields(self, snapshot_id: int | None = None) -> Fields:
        """The columns of a version, or of the table as it is now."""
        document = self.metadata
        wanted = document["current-schema-id"]
        if snapshot_id is not None:
            (wanted,) = [s["schema-id"] for s in document["snapshots"] if s["snapshot-id"] == snapshot_id]
        (schema,) = [schema for schema in document["schemas"] if schema["schema-id"] == wanted]
        found: Fields = schema["fields"]
        return found

    def expected(self, ref: str, fields: Fields) -> list[Row]:
        """A ref's rows by the names that a schema gives their columns."""
        return [self._shown(row, fields) for row in self.rows[ref]]

    def append(self, numbers: Iterable[int]) -> None:
        """Append rows through PyIceberg, which writes a list of structs that is null as an empty one."""
        table = self.lake.catalog.load_table(self.name)
        rows, shown = self._made(numbers, lambda code: code.bytes)
        table.append(pa.Table.from_pylist(shown, schema=table.schema().as_arrow()))
        self.rows["main"] = self.rows["main"] + [{**row, "deep": row["deep"] or []} for row in rows]

    def insert(self, numbers: Iterable[int], branch: str = "main") -> None:
        """Append rows through Spark."""
        rows, shown = self._made(numbers, str)
        arrow = pa.Table.from_pylist(shown, schema=pa.schema([_arrow_field(column) for column in self.fields()]))
        target = f"main.{self.name}" + ("" if branch == "main" else f".branch_{branch}")
        self.lake.warden.ground.spark.session().createDataFrame(arrow).coalesce(1).writeTo(target).append()
        self.rows[branch] = self.rows[branch] + rows

    def _made(self, numbers: Iterable[int], given: Callable[[UUID], Any]) -> tuple[list[Row], list[Row]]:
        """New rows, as they are kept here, and as a writer takes them."""
        fields = self.fields()
        self._learn(fields)
        rows = [self._kept(self.make_row(number), fields) for number in numbers]
        shown = [self._shown(row, fields) for row in rows]
        return rows, [{**row, "code": row["code"] and given(row["code"])} for row in shown]

    def delete(self, numbers: Iterable[int], branch: str = "main") -> None:
        gone = set(numbers)
        target = "{t}" if branch == "main" else f"{{t}}.branch_{branch}"
        self.sql(f"DELETE FROM {target} WHERE id IN ({', '.join(map(str, gone))})")
        self.forget(lambda row: row["id"] in gone, [branch])

    def forget(self, is_gone: Callable[[Row], bool], refs: Iterable[str] = ()) -> None:
        """Expect some rows no more; in no ref, unless some are named."""
        for ref in refs or self.rows:
            self.rows[ref] = [row for row in self.rows[ref] if not is_gone(row)]

    def ref(self, kind: str, name: str) -> None:
        """Make a tag or a branch of what main is now."""
        self.sql(f"ALTER TABLE {{t}} CREATE {kind} {name}")
        self.rows[name] = self.rows["main"]

    def _learn(self, fields: Fields) -> None:
        """Give every new column a key: its path, marked where an earlier column was called the same."""
        for path, column in _columns(fields):
            if column["id"] not in self.keys:
                marks = "'" * sum(key.rstrip("'") == path for key in self.keys.values())
                self.keys[column["id"]] = path + marks

    def _kept(self, row: Row, fields: Fields) -> Row:
        """The row as far as the table has columns for it."""
        return {
            key: self._kept(row[key], column["type"]["fields"])
            if _is_struct(column) and row[key] is not None
            else row[key]
            for column in fields
            for key in [self.keys[column["id"]]]
        }

    def _shown(self, row: Row, fields: Fields) -> Row:
        self._learn(fields)
        found = {}
        for column in fields:
            value: Any = row.get(self.keys[column["id"]])
            is_struct = _is_struct(column) and value is not None
            found[column["name"]] = self._shown(value, column["type"]["fields"]) if is_struct else value
        return found


def _is_struct(column: dict[str, Any]) -> bool:
    return isinstance(column["type"], dict) and bool(column["type"]["type"] == "struct")


def _columns(fields: Fields, within: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Columns and those of structs, with their paths; lists and maps are taken whole."""
    for column in fields:
        yield within + column["name"], column
        if _is_struct(column):
            yield from _columns(column["type"]["fields"], f"{within}{column['name']}.")


_ARROW = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "date": pa.date32(), "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(), "binary": pa.binary(), "uuid": pa.string(), "time": pa.time64("us"),
}  # fmt: skip


def _arrow_field(column: dict[str, Any]) -> pa.Field:
    return pa.field(column["name"], _arrow(column["type"]), nullable=not column["required"])


def _arrow(kind: Any) -> pa.DataType:
    if isinstance(kind, str):
        if kind.startswith("decimal"):
            precision, scale = kind.removeprefix("decimal(").removesuffix(")").split(",")
            return pa.decimal128(int(precision), int(scale))
        return pa.binary() if kind.startswith("fixed") else _ARROW[kind]
    if kind["type"] == "struct":
        return pa.struct([_arrow_field(column) for column in kind["fields"]])
    if kind["type"] == "list":
        return pa.list_(pa.field("element", _arrow(kind["element"]), nullable=not kind["element-required"]))
    value = pa.field("value", _arrow(kind["value"]), nullable=not kind["value-required"])
    return pa.map_(_arrow(kind["key"]), value)


# --- rows ------------------------------------------------------------------------------------------------------------

NAN = float("nan")
_FLOATS = (NAN, 1.5, -2.25, float("inf"), None, 0.0, -0.0, float("-inf"), 1e30)
_TEXTS = ("", "Zürich 🧊 a name longer than any bound", None, "z" * 40, "a\x00b", "\U0010ffff" * 20, "plain")
_DAYS = (date(1, 1, 1), date(1969, 12, 31), None, date(2026, 2, 28), date(9999, 12, 31))


def person(n: int) -> Row:
    """A row of every type, with the values that are trouble: NaN, zeros of either sign, nulls, ends of ranges."""
    day = _DAYS[n % len(_DAYS)]
    at = None if n % 6 == 5 else datetime(2026, 1, 1) + timedelta(hours=7 * (n % 5), microseconds=n)
    number = None if n % 7 == 3 else (n - 8) * 12_345
    return {
        "id": n,
        "name": f"person-{n:03}-whose-name-is-longer-than-a-bound",
        "flag": (True, False, None)[n % 3],
        "small": (2**31 - 1, -(2**31), None, 0, n)[n % 5],
        "big": (2**63 - 1, -(2**63), None, 0, n)[n % 5],
        "ratio": _FLOATS[n % 8],
        "value": _FLOATS[(n + 3) % 9],
        "nans": NAN,
        "zero": (0.0, -0.0)[n % 2],
        "empty": None,
        "d9": _decimal(number, 2),
        "d18": _decimal(number and number * 10**8, 4),
        "d38": _decimal(number and number * 10**31, 10),
        "day": day,
        "at": at,
        "at_tz": at and at.replace(tzinfo=UTC),
        "text": _TEXTS[n % len(_TEXTS)],
        "raw": (b"", b"\xff" * 20, None, b"\x00", bytes(range(40)))[n % 5],
        "code": None if n % 4 == 1 else UUID(int=((n * 37) % 256) << 120 | n),
        "four": (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", None, b"abcd")[n % 4],
        "clock": None if n % 4 == 2 else time(n % 24, 59, 59, 999_999),
        "gone": f"gone {n}",
        "gone'": n * 10,
        "added": n * 100,
        "st": None if n % 5 == 4 else _struct(n),
        "li": (None, [], [NAN, 1.0], [float(n), None, -0.0])[n % 4],
        "ma": (None, [], [("a", NAN), ("b", None)], [(f"key {n}", float(n))])[n % 4],
        "deep": (None, [], [{"k": n, "v": [("x", NAN), ("y", 0.5)]}, None], [{"k": None, "v": None}])[n % 4],
    }


def _decimal(unscaled: int | None, scale: int) -> Decimal | None:
    return None if unscaled is None else Decimal(unscaled).scaleb(-scale, Context(prec=38))


def _struct(n: int) -> Row:
    inner = None if n % 3 == 2 else {"st.inner.f": _FLOATS[(n + 1) % 8], "st.inner.g": n}
    return {
        "st.x": _FLOATS[(n + 5) % 9], "st.y": _TEXTS[(n + 2) % len(_TEXTS)], "st.need": n, "st.inner": inner,
        "st.y'": f"new {n}",
    }  # fmt: skip
