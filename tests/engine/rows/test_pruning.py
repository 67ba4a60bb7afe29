"""What the search for key values leaves unread, and that it never leaves out a row."""

from __future__ import annotations

import random
import struct
import uuid
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    UUIDType,
)

from lakewarden.engine.rows.bloom_filter import xxhash64
from lakewarden.engine.rows.key_columns import look_into
from lakewarden.engine.rows.key_values import KeyValues
from lakewarden.records.erasure import HiddenKey
from tests.cases import in_soak
from tests.engine.lakes import Lake, lake, local
from tests.engine.rows.test_search import EMAIL, NO_BOUNDS, PLAIN, Kept, Opened, emails, matching, people
from tests.examples import examples

__all__ = ["lake"]

KEY = 1
AMOUNT = DecimalType(9, 2)
WIDE = DecimalType(30, 4)


def made(kind: IcebergType, number: int) -> Any:
    """A value of any type, of its own for each number and rising with it."""
    match str(kind).split("(")[0]:
        case "string":
            return f"person {number:06}@exämple.org"
        case "date":
            return date(1969, 12, 1) + timedelta(days=number)
        case "uuid":
            return uuid.UUID(int=number << 70 | number)
        case "decimal":
            return (Decimal(number) - 50).quantize(Decimal(1).scaleb(-kind.scale))  # type: ignore[attr-defined]
        case _:
            return number * 1000 - 5


def spelled(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def key_of(kind: IcebergType, *values: Any, field_id: int = KEY) -> HiddenKey:
    return HiddenKey(field_id, str(kind), [spelled(value) for value in values])


def keyed(lake: Lake, kind: IcebergType, *fields: PartitionField, name: str = "crm.kept", **told: str) -> Kept:
    return Kept(lake, Schema(NestedField(KEY, "key", kind)), *fields, name=name, **told)


def stored(value: Any) -> Any:
    return value.bytes if isinstance(value, uuid.UUID) else value


def rows(*values: Any) -> list[dict[str, Any]]:
    return [{"key": stored(value)} for value in values]


KINDS: list[IcebergType] = [StringType(), IntegerType(), LongType(), DateType(), UUIDType(), AMOUNT, WIDE]
TRANSFORMS = [
    *((kind, BucketTransform(8)) for kind in KINDS),
    (StringType(), IdentityTransform()),
    (StringType(), TruncateTransform(12)),
    (DateType(), MonthTransform()),
    *in_soak(*((kind, IdentityTransform()) for kind in KINDS if kind != StringType())),
    *in_soak((LongType(), TruncateTransform(7000)), (AMOUNT, TruncateTransform(900))),
    *in_soak((DateType(), YearTransform()), (DateType(), DayTransform())),
]


class TestPartitions:
    @pytest.mark.parametrize(("kind", "transform"), TRANSFORMS, ids=str)
    def test_only_files_of_partitions_that_values_fall_into(
        self, lake: Lake, kind: IcebergType, transform: Transform[Any, Any]
    ) -> None:
        kept = keyed(lake, kind, PartitionField(KEY, 1000, transform, "part"))
        into = transform.transform(kind)
        values = [made(kind, number * 97) for number in range(8)]
        paths = {value: kept.add(rows(value), [_partition(into, value)], **NO_BOUNDS) for value in values}
        wanted = values[3]
        same = {paths[value] for value in values if into(_plain(value)) == into(_plain(wanted))}
        found = kept.search(key_of(kind, wanted))
        assert matching(found) == {paths[wanted]: 1}
        assert set(kept.storage.times) == same
        assert len(same) < len(values)

    def test_a_partition_without_a_value_is_ruled_out(self, lake: Lake) -> None:
        kept = keyed(lake, StringType(), PartitionField(KEY, 1000, IdentityTransform(), "part"))
        kept.add(rows(None), [None], **NO_BOUNDS, value_counts={}, null_value_counts={})
        assert kept.search(key_of(StringType(), "a")).read == 0

    def test_transforms_that_tell_nothing(self, lake: Lake) -> None:
        kept = keyed(lake, StringType(), PartitionField(KEY, 1000, VoidTransform(), "part"))
        path = kept.add(rows("a"), [None], **NO_BOUNDS)
        assert matching(kept.search(key_of(StringType(), "a"))) == {path: 1}

    def test_each_file_by_the_spec_it_was_written_with(self, lake: Lake) -> None:
        kept = keyed(lake, StringType(), PartitionField(KEY, 1000, IdentityTransform(), "part"))
        old = kept.add(rows("a"), ["a"], **NO_BOUNDS)
        kept.add(rows("b"), ["b"], **NO_BOUNDS)
        with kept.table.update_spec() as change:
            change.remove_field("part")
        new = kept.add(rows("a", "b"), **NO_BOUNDS)
        found = kept.search(key_of(StringType(), "a"))
        assert matching(found) == {old: 1, new: 1}
        assert found.read == 2

    def test_partitions_of_other_columns_rule_nothing_out(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN, PartitionField(1, 1000, IdentityTransform(), "id"))
        path = kept.add(people("a"), [0])
        assert matching(kept.search(emails("a"))) == {path: 1}


class TestBounds:
    @pytest.mark.parametrize("kind", KINDS, ids=str)
    def test_files_that_lie_elsewhere_are_not_opened(self, lake: Lake, kind: IcebergType) -> None:
        kept = keyed(lake, kind)
        values = [made(kind, number) for number in range(90)]
        paths = [kept.add(rows(*values[start : start + 10])) for start in range(0, 90, 30)]
        for value in (values[30], values[35], values[39]):  # the smallest and the largest too
            kept.storage.times.clear()
            assert matching(kept.search(key_of(kind, value, values[25], values[89]))) == {paths[1]: 1}
            assert set(kept.storage.times) == {paths[1]}

    def test_nothing_but_nulls(self, lake: Lake) -> None:
        kept = keyed(lake, StringType())
        kept.add(rows(None, None))
        found = kept.search(key_of(StringType(), "None", ""))
        assert (found.matches, found.listed, found.pruned, found.bytes_read) == ({}, 1, 1, 0)

    @pytest.mark.parametrize("upper", [b"abcdefghijklmnop", b"abcdefghijklmnoq", b"abcdefghijklmno\xc3", None])
    def test_bounds_of_text_that_were_cut(self, lake: Lake, upper: bytes | None) -> None:
        """Some writers raise the last character, others do not, and others cut within one."""
        kept = keyed(lake, StringType())
        value = "abcdefghijklmnop and more"
        bounds: dict[str, Any] = {
            "lower_bounds": {KEY: b"abcdefghijklmnop"},
            "upper_bounds": {KEY: upper} if upper else {},
        }
        path = kept.add(rows(value), **bounds)
        assert matching(kept.search(key_of(StringType(), value))) == {path: 1}
        assert kept.search(key_of(StringType(), "abc")).read == 0

    def test_bounds_from_before_a_promotion(self, lake: Lake) -> None:
        kept = Kept(lake, Schema(NestedField(1, "key", IntegerType()), NestedField(2, "sum", AMOUNT)))
        old = kept.add([{"key": -7, "sum": Decimal("-1.25")}, {"key": 9, "sum": Decimal("3.00")}])
        with kept.table.update_schema() as change:
            change.update_column("key", LongType())
            change.update_column("sum", DecimalType(20, 2))
        new = kept.add([{"key": 2**40, "sum": Decimal("123456789012.00")}, {"key": 9, "sum": Decimal("3.00")}])
        for kind in ("int", "long"):  # the request may be older than the promotion, or younger
            assert matching(kept.search(HiddenKey(1, kind, ["-7"]))) == {old: 1}
            assert matching(kept.search(HiddenKey(1, kind, ["9"]))) == {old: 1, new: 1}
        assert matching(kept.search(HiddenKey(1, "long", [str(2**40)]))) == {new: 1}
        for kind in ("decimal(9, 2)", "decimal(20, 2)"):
            assert matching(kept.search(HiddenKey(2, kind, ["-1.25"]))) == {old: 1}
            assert matching(kept.search(HiddenKey(2, kind, ["3.00"]))) == {old: 1, new: 1}
        assert kept.search(HiddenKey(1, "long", ["-8", "10"])).matches == {}

    def test_uuids_in_java_s_order(self, lake: Lake) -> None:
        """To Java those that begin with 8 or more came first, in bounds too."""
        kept = keyed(lake, UUIDType())
        high, low = uuid.UUID(int=0x9 << 124 | 5), uuid.UUID(int=0x1 << 124)
        bounds: dict[str, Any] = {"lower_bounds": {KEY: high.bytes}, "upper_bounds": {KEY: low.bytes}}
        path = kept.add(rows(high, low), **bounds)
        between = uuid.UUID(int=0xF << 124)
        for value in (high, low):
            assert matching(kept.search(key_of(UUIDType(), value))) == {path: 1}
        assert kept.search(key_of(UUIDType(), between)).matches == {}
        assert kept.storage.times[path] == 3
        assert kept.search(key_of(UUIDType(), uuid.UUID(int=0x4 << 124))).matches == {}
        assert kept.storage.times[path] == 3

    def test_files_without_bounds_are_read(self, lake: Lake) -> None:
        kept = keyed(lake, LongType(), **{"write.metadata.metrics.default": "none"})
        path = kept.add(rows(1, 2, 3))
        assert matching(kept.search(key_of(LongType(), 2))) == {path: 1}


class TestFooters:
    @pytest.mark.parametrize("kind", KINDS, ids=str)
    def test_row_groups_that_lie_elsewhere_are_not_read(self, lake: Lake, kind: IcebergType) -> None:
        kept = keyed(lake, kind)
        values = [made(kind, number * 2) for number in range(4000)]
        path = kept.add(rows(*values), writing={"row_group_size": 500, "use_dictionary": False})
        found = kept.search(key_of(kind, values[777]))
        assert matching(found) == {path: 1}
        whole = kept.search(key_of(kind, *values[::500]))
        assert matching(whole) == {path: 8}
        assert found.bytes_read < whole.bytes_read / 2
        assert kept.search(key_of(kind, made(kind, 999 + 500 * 2))).matches == {}

    def test_a_value_between_two_row_groups(self, lake: Lake) -> None:
        kept = keyed(lake, LongType())
        kept.add(rows(1, 2, 8, 9), writing={"row_group_size": 2})
        found = kept.search(key_of(LongType(), 5))
        assert (found.read, found.pruned, found.matches) == (0, 1, {})
        assert found.bytes_read > 0

    def test_row_groups_without_statistics(self, lake: Lake) -> None:
        kept = keyed(lake, LongType())
        path = kept.add(rows(1, None, 8, 9), writing={"row_group_size": 2, "write_statistics": False}, **NO_BOUNDS)
        assert matching(kept.search(key_of(LongType(), 8))) == {path: 1}

    @pytest.mark.parametrize("as_integer", [False, True])
    @pytest.mark.parametrize("kind", KINDS, ids=str)
    def test_bloom_filters(self, lake: Lake, kind: IcebergType, as_integer: bool) -> None:
        kept = keyed(lake, kind)
        values = [made(kind, number * 2) for number in range(500)]
        options = {"ndv": 1000, "fpp": 0.0001}
        writing = {"bloom_filter_options": {"key": options}, "store_decimal_as_integer": as_integer}
        path = kept.add(rows(*values), writing=writing)
        absent = [made(kind, number * 2 + 1) for number in range(100, 110)]
        found = kept.search(key_of(kind, *absent))
        assert (found.matches, found.read, kept.storage.times[path]) == ({}, 0, 1)
        assert matching(kept.search(key_of(kind, *absent, *values[100:103]))) == {path: 3}

    def test_without_a_bloom_filter_the_same_is_read(self, lake: Lake) -> None:
        kept = keyed(lake, LongType())
        kept.add(rows(*range(0, 1000, 2)))
        assert kept.search(key_of(LongType(), 501)).read == 1

    @pytest.mark.parametrize("values", [3, 5000])
    @pytest.mark.parametrize("dictionary", [True, False])
    def test_dictionaries(self, lake: Lake, dictionary: bool, values: int) -> None:
        kept = keyed(lake, StringType())
        held = [None if number % 7 == 0 else f"p{number % 50:02}" for number in range(20_000)]
        path = kept.add(rows(*held), writing={"use_dictionary": dictionary, "row_group_size": 6000})
        asked = ["p03", "p49", *(f"q{number}" for number in range(values))]
        assert matching(kept.search(key_of(StringType(), *asked))) == {path: held.count("p03") + held.count("p49")}

    def test_a_dictionary_with_nulls_beside_another_key(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        path = kept.add(people(*[None, "a", "b"] * 100))
        assert matching(kept.search(emails("a"), HiddenKey(1, "long", ["0", "1", "2"]))) == {path: 102}


class TestNested:
    SCHEMA = Schema(
        NestedField(
            2,
            "user",
            StructType(
                NestedField(3, "age", IntegerType()),
                NestedField(4, "email", StringType()),
                NestedField(5, "home", StructType(NestedField(6, "code", IntegerType()))),
            ),
        ),
    )

    @pytest.mark.parametrize("dictionary", [True, False])
    def test_a_field_within_structs(self, lake: Lake, dictionary: bool) -> None:
        kept = Kept(lake, self.SCHEMA)
        user = kept.table.schema().find_field("user.email").field_id
        code = kept.table.schema().find_field("user.home.code").field_id
        content: list[dict[str, Any]] = [
            {"user": {"age": 7, "email": "a", "home": {"code": 5}}},
            {"user": {"age": 5, "email": None, "home": None}},
            {"user": None},
            {"user": {"age": 8, "email": "b", "home": {"code": None}}},
        ] * 100
        path = kept.add(content, writing={"use_dictionary": dictionary})
        assert matching(kept.search(HiddenKey(user, "string", ["a"]))) == {path: 100}
        assert matching(kept.search(HiddenKey(code, "int", ["5"]))) == {path: 100}
        assert matching(kept.search(HiddenKey(code, "int", ["5"]), HiddenKey(user, "string", ["b"]))) == {path: 200}

    def test_columns_whose_names_could_be_either(self, lake: Lake, tmp_path: Path) -> None:
        """PyIceberg refuses such a schema; other writers need not."""

        def numbered(name: str, type_: Any, number: int) -> Any:
            return pa.field(name, type_, True, {"PARQUET:field_id": str(number)})

        inner = pa.struct([numbered("email", pa.string(), 4)])
        schema = pa.schema([numbered("user.email", pa.string(), 1), numbered("user", inner, 2)])
        table = pa.table([["a", "b", "c"], [{"email": "c"}, {"email": "c"}, {"email": "a"}]], schema=schema)
        pq.write_table(table, tmp_path / "f.parquet", store_schema=False)
        for field_id, rows_held in ((1, 1), (4, 2)):
            key = KeyValues(HiddenKey(field_id, "string", ["c"]))
            assert look_into(Opened(lake), str(tmp_path / "f.parquet"), [key], (), "t").matching == rows_held


class TestManyValues:
    @pytest.mark.parametrize("kind", KINDS, ids=str)
    def test_more_values_than_rows(self, lake: Lake, kind: IcebergType) -> None:
        kept = keyed(lake, kind)
        values = [made(kind, number) for number in range(0, 6000, 2)]
        path = kept.add(rows(*(made(kind, number) for number in range(1000, 1040)), None))
        assert matching(kept.search(key_of(kind, *values))) == {path: 20}

    @pytest.mark.slow
    def test_a_million(self, lake: Lake) -> None:
        """Each of many small files costs what it holds, not what is looked for."""
        kept = Kept(lake, PLAIN)
        for number in range(30):
            kept.add(people(*(f"p{person}" for person in random.Random(number).sample(range(10**7), 50))))
        values = [f"p{number}" for number in range(0, 10**7, 10)]
        found = kept.search(emails(*values))
        asked = set(values)
        held = sum(_count(path, asked) for path in kept.storage.times)
        assert found.read == 30 and sum(matching(found).values()) == held > 0


def _count(path: str, values: set[str]) -> int:
    return sum(value in values for value in pq.read_table(local(path))["email"].to_pylist())


@pytest.mark.parametrize(
    ("data", "hashed"),
    [
        (b"", 0xEF46DB3751D8E999),
        (b"a", 0xD24EC4F1A98C6E5B),
        (b"abc", 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0xFBCEA83C8A378BF1),
    ],
)
def test_the_hash_of_bloom_filters(data: bytes, hashed: int) -> None:
    """Known answers of xxHash's own."""
    assert xxhash64(data) == hashed


_NAMES = st.text(st.sampled_from("abäz\x00\uffff\U0001f600"), max_size=20)
_FILES = st.lists(st.lists(st.none() | _NAMES, min_size=1, max_size=12), min_size=1, max_size=5)


@examples(80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=_FILES,
    asked=st.lists(_NAMES, min_size=1, max_size=6, unique=True),
    width=st.sampled_from([0, 1, 3]),
    group=st.integers(1, 12),
    dictionary=st.booleans(),
    length=st.sampled_from(["truncate(1)", "truncate(16)", "full", "none"]),
)
def test_nothing_is_left_out(
    lake: Lake,
    files: list[list[str | None]],
    asked: list[str],
    width: int,
    group: int,
    dictionary: bool,
    length: str,
) -> None:
    """Whatever is ruled out: the rows that are found are those that reading everything finds."""
    fields = [PartitionField(EMAIL, 1000, TruncateTransform(width), "part")] if width else []
    name, told = f"crm.t{uuid.uuid4().hex}", {"write.metadata.metrics.default": length}
    kept = Kept(lake, PLAIN, *fields, name=name, **told)
    writing = {"row_group_size": group, "use_dictionary": dictionary, "bloom_filter_options": {"email": {"ndv": 20}}}
    expected: dict[str, int] = {}
    for content in files:
        parts: dict[str | None, list[str | None]] = {}
        for value in content:
            parts.setdefault(value[:width] if width and value is not None else None, []).append(value)
        if not width:
            parts = {None: content}
        for part, values in parts.items():
            path = kept.add(people(*values), [part] if width else [], writing=writing)
            if held := sum(value in asked for value in values):
                expected[path] = held
    assert matching(kept.search(emails(*asked))) == expected


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), st.integers(), st.integers())
def test_spans_of_numbers(values: list[int], low: int, high: int) -> None:
    low, high = min(low, high), max(low, high)
    key = KeyValues(key_of(LongType(), *values))
    assert key.may_be_within(low, high) == any(low <= value <= high for value in values)
    assert key.bound(struct.pack("<q", values[0])) == values[0]


def _plain(value: Any) -> Any:
    """A value as transforms take it."""
    return stored(value)


def _partition(into: Any, value: Any) -> Any:
    """What a transform makes of a value, as PyIceberg writes it."""
    part = into(_plain(value))
    if isinstance(part, date):
        return (part - date(1970, 1, 1)).days
    return uuid.UUID(bytes=part) if isinstance(part, bytes) else part
