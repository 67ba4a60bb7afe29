"""The columns of a database table, and what each becomes in the archive.

Every value travels as text: to Spark, to a reader, and into checksums. So one SQL expression for each column decides
what a value is, and both sides of a comparison start from the same text. Values that Iceberg cannot represent are
refused, except dates such as 0000-00-00: these become NULL, and a column of their own keeps them as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from lakewarden.engine.base.quoting import identifier
from lakewarden.errors import UnfitDatabase
from lakewarden.features.sequence.connection import Reading, text_literal

if TYPE_CHECKING:
    import pyarrow as pa

PARTITION = "lakewarden_partition"
"""The archive's own column, by which it is partitioned: the partition that a row comes from."""
INVALID_DATES = "lakewarden_invalid_dates"
"""The archive's own column for dates that no calendar has."""

_INTEGERS = {"tinyint": "int", "smallint": "int", "mediumint": "int", "int": "int", "bigint": "long"}
_UNSIGNED = {**_INTEGERS, "int": "long", "bigint": "decimal(20, 0)"}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set"}
_AS_TEXT = {"time", "uuid", "inet4", "inet6"}
_BINARIES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_MOST_DIGITS = 38
_SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}


@dataclass(frozen=True)
class Column:
    """A column of the archive."""

    name: str
    type: str
    """In Iceberg's words."""
    text: str
    """An SQL expression of the database for its value as text."""
    is_null: str
    """An SQL condition. A text may be NULL for another reason: one above max_allowed_packet is."""

    @property
    def from_text(self) -> str:
        """A Spark expression for the value of the text in a column of the same name."""
        name = identifier(self.name)
        if self.type == "binary":
            return f"unhex({name}) AS {name}"
        if self.type == "timestamptz":
            return f"timestamp_micros(CAST({name} AS bigint)) AS {name}"
        return f"CAST({name} AS {_SPARK.get(self.type, self.type)}) AS {name}"


def columns_of(connection: Reading, table: str) -> tuple[Column, ...]:
    """What the columns of a database table become, in order; refused if one cannot be represented."""
    described = connection.rows(
        "SELECT COLUMN_NAME AS name, DATA_TYPE AS type, COLUMN_TYPE AS spelled, NUMERIC_PRECISION AS digits, "  # noqa: S608
        "NUMERIC_SCALE AS scale FROM information_schema.COLUMNS "
        f"WHERE TABLE_SCHEMA = {text_literal(connection.database)} AND TABLE_NAME = {text_literal(table)} "
        "ORDER BY ORDINAL_POSITION"
    )
    columns, dates, refused = list[Column](), list[str](), list[str]()
    for row in described:
        name, kind, spelled = str(row["name"]), str(row["type"]).lower(), str(row["spelled"])
        if name.lower() in (PARTITION, INVALID_DATES):
            refused.append(f"{name} has a name that the archive uses itself")
            continue
        found = _column(name, kind, spelled, int(row["digits"] or 0), int(row["scale"] or 0))
        if found is None:
            refused.append(f"{name} is {spelled}")
            continue
        columns.append(found)
        if found.type in ("date", "timestamp", "timestamptz"):
            dates.append(name)
    if refused:
        raise UnfitDatabase(f"{table} cannot be archived: {'; '.join(refused)}", "Iceberg has no type for that.")
    if dates:
        text = f"NULLIF(CONCAT_WS(', ', {', '.join(map(_invalid, dates))}), '')"
        columns.append(Column(INVALID_DATES, "string", text, f"{text} IS NULL"))
    return tuple(columns)


def _column(name: str, kind: str, spelled: str, digits: int, scale: int) -> Column | None:
    """The archive's column for one of the database; None if Iceberg has no type for it."""
    value = identifier(name)
    number = f"CAST({value} + 0 AS CHAR)"  # + 0 removes the zeros of ZEROFILL
    found: tuple[str, str] | None = None
    if kind in _INTEGERS:
        found = (_UNSIGNED if "unsigned" in spelled else _INTEGERS)[kind], number
    elif kind == "year":
        found = "int", number
    elif kind == "bit":
        found = "long" if digits < 64 else _UNSIGNED["bigint"], number
    elif kind == "decimal" and digits <= _MOST_DIGITS:
        found = f"decimal({digits}, {scale})", number
    elif kind in ("float", "double"):
        found = kind, f"CAST(CAST({value} AS DOUBLE) AS CHAR)"  # a float itself is printed with 6 digits
    elif kind in _TEXTS | _AS_TEXT:
        found = "string", f"CONVERT({value} USING utf8mb4)"
    elif kind in _BINARIES:
        found = "binary", f"HEX({value})"
    if found is not None:
        return Column(name, *found, f"{value} <=> NULL")
    is_null = f"{value} + INTERVAL 0 DAY IS NULL"  # NULL for dates that no calendar has too
    texts = {
        "date": ("date", f"DATE_FORMAT({value}, '%Y-%m-%d')"),
        "datetime": ("timestamp", f"DATE_FORMAT({value}, '%Y-%m-%d %H:%i:%s.%f')"),
        "timestamp": ("timestamptz", f"CAST(CAST(UNIX_TIMESTAMP({value}) * 1000000 AS SIGNED) AS CHAR)"),
    }
    if kind not in texts:
        return None
    type, text = texts[kind]
    return Column(name, type, f"IF({is_null}, NULL, {text})", is_null)


def _invalid(name: str) -> str:
    """`ordered=0000-00-00`, or NULL if the date is valid or NULL."""
    value = identifier(name)
    said = f"CONCAT({text_literal(f'{name}=')}, CAST({value} AS CHAR))"
    return f"IF({value} + INTERVAL 0 DAY IS NULL AND NOT ({value} <=> NULL), {said}, NULL)"


def select(columns: Sequence[Column]) -> str:
    """The values of a row as text, for a SELECT."""
    return ", ".join(f"{column.text} AS {identifier(column.name)}" for column in columns)


def select_in_hex(columns: Sequence[Column]) -> str:
    """The same with texts in hexadecimal: the command line client's XML cannot carry every character."""
    texts = [(column, f"HEX({column.text})" if column.type == "string" else column.text) for column in columns]
    return ", ".join(f"{text} AS {identifier(column.name)}" for column, text in texts)


def as_texts(values: pa.Array | pa.ChunkedArray, type: str) -> list[str | None]:
    """The values of a column of the archive, as the database writes them."""
    import pyarrow as pa

    if type in ("float", "double"):
        return [None if value is None else _double(value) for value in values.to_pylist()]
    if type == "binary":
        return [None if value is None else value.hex().upper() for value in values.to_pylist()]
    if type.startswith("decimal") and values.type.scale > _PLAIN_SCALE:
        return [None if value is None else f"{value:f}" for value in values.to_pylist()]
    if type == "timestamptz":
        values = values.cast(pa.int64())
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


def from_texts(texts: Sequence[str | None], type: pa.DataType) -> pa.Array:
    """What `select_in_hex` returns, as values of the archive."""
    import pyarrow as pa
    import pyarrow.types as is_type

    if is_type.is_binary(type) or is_type.is_large_binary(type):
        return pa.array([None if text is None else bytes.fromhex(text) for text in texts], type)
    if is_type.is_string(type) or is_type.is_large_string(type):
        return pa.array([None if text is None else bytes.fromhex(text).decode() for text in texts], type)
    if is_type.is_timestamp(type) and type.tz is not None:
        return pa.array([None if text is None else int(text) for text in texts], pa.int64()).cast(type)
    return pa.array(texts, pa.string()).cast(type)


_PLAIN_SCALE = 6
"""Up to this scale, Arrow writes decimals without an exponent."""
_PLAIN = range(-14, 16)
"""Where the decimal point may be for MariaDB to write a double without an exponent, if it is not within the digits."""


def _double(value: float) -> str:
    """A double as MariaDB writes it: the shortest digits, as in Python, with other rules for exponents."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e15:
        return repr(value).removesuffix(".0")
    found = Decimal(repr(value)).normalize().as_tuple()
    sign, digits = "-" if found.sign else "", "".join(map(str, found.digits))
    point = len(digits) + int(found.exponent)
    if point not in _PLAIN and not 0 < point < len(digits):
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1}"
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[:point].ljust(point, '0')}{'.' if digits[point:] else ''}{digits[point:]}"
