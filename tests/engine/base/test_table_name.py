"""How tables and their versions are written, and read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lakewarden.engine.base.table_name import Reference, TableName, parse, parse_table, parse_time
from lakewarden.errors import BadReference

LAKES = ("main", "eu")

plain = st.text(min_size=1, max_size=30)
awkward = st.text(alphabet=".@`'\" \\\n\té雪\U0001f9ca", min_size=1, max_size=12)
names = st.one_of(plain, awkward, st.just("x" * 200), st.sampled_from(["main", "eu", "v1", "2024-01-01", "123"]))
references = st.builds(
    Reference,
    st.builds(
        TableName,
        st.sampled_from(LAKES),
        st.lists(names, min_size=1, max_size=4).map(tuple),
        names,
    ),
    st.none() | names,
)


@given(references)
@example(Reference(TableName("main", ("eu",), "orders"), "v1"))
@example(Reference(TableName("eu", ("main", "a.b"), "`"), " "))
@example(Reference(TableName("main", ("``",), "@"), "`v1`"))
@example(Reference(TableName("main", ("s",), "t"), "2024-01-01T10:00:00.5+02:00"))
def test_what_is_written_is_read_back(reference: Reference) -> None:
    assume(len(str(reference)) <= 1024)
    assert parse(str(reference), LAKES, "main") == reference


@given(references)
def test_a_table_name_is_read_back(reference: Reference) -> None:
    assume(len(str(reference.name)) <= 1024)
    assert parse_table(str(reference.name), LAKES, "eu") == reference.name


@given(st.one_of(st.text(), st.text(alphabet="a.@` ", max_size=12), st.text(alphabet="`.", max_size=8)))
def test_any_text_is_a_reference_or_a_bad_reference(text: str) -> None:
    try:
        reference = parse(text, LAKES, "main")
    except BadReference as error:
        refused = error
    else:
        assert parse(str(reference), LAKES, "main") == reference
        return
    assert refused.exit_code == 2
    assert "[lake.]namespace.table[@ref]" in refused.hint


def test_the_longest_text() -> None:
    assert parse("s." + "t" * 1022, LAKES, "main").name.table == "t" * 1022
    with pytest.raises(BadReference, match="1025 characters, more than the limit of 1024") as caught:
        parse("s." + "t" * 1023, LAKES, "main")
    assert len(caught.value.message) < 200


@pytest.mark.parametrize(
    ("text", "lake", "namespace", "table", "ref"),
    [
        ("sales.orders", "main", ("sales",), "orders", None),
        ("main.sales.orders", "main", ("sales",), "orders", None),
        ("eu.sales.orders", "eu", ("sales",), "orders", None),
        ("eu.orders", "main", ("eu",), "orders", None),  # two parts are a namespace and a table, never a lake
        ("us.sales.orders", "main", ("us", "sales"), "orders", None),
        ("eu.eu.orders", "eu", ("eu",), "orders", None),
        ("main.eu.sales.orders", "main", ("eu", "sales"), "orders", None),
        ("a.b.c.d.e", "main", ("a", "b", "c", "d"), "e", None),
        ("`eu`.sales.orders", "eu", ("sales",), "orders", None),
        ("`eu.sales`.orders", "main", ("eu.sales",), "orders", None),
        ("sales.`or``ders`", "main", ("sales",), "or`ders", None),
        ("sales.`a@b`@v1", "main", ("sales",), "a@b", "v1"),
        ("sales.orders@v1", "main", ("sales",), "orders", "v1"),
        ("sales.orders@v1.2", "main", ("sales",), "orders", "v1.2"),
        ("sales.orders@team@v1", "main", ("sales",), "orders", "team@v1"),
        ("sales.orders@`v1.2`", "main", ("sales",), "orders", "v1.2"),
        ("sales.orders@`a``b`", "main", ("sales",), "orders", "a`b"),
        ("sales.orders@2024-01-01T10:00:00.500+02:00", "main", ("sales",), "orders", "2024-01-01T10:00:00.500+02:00"),
        ("EU.sales.orders", "main", ("EU", "sales"), "orders", None),
    ],
)
def test_how_names_are_taken_apart(
    text: str, lake: str, namespace: tuple[str, ...], table: str, ref: str | None
) -> None:
    assert parse(text, LAKES, "main") == Reference(TableName(lake, namespace, table), ref)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        ("  \n", "it is empty"),
        ("orders", "the namespace is missing"),
        ("orders@v1", "the namespace is missing"),
        (".orders", "a part of the name is empty"),
        ("sales.", "a part of the name is empty"),
        ("sales..orders", "a part of the name is empty"),
        ("sales. .orders", "a part of the name is empty"),
        ("sales.@v1", "a part of the name is empty"),
        ("@v1", "a part of the name is empty"),
        ("sales.``", "a part of the name is empty"),
        ("sales.``.x", "a part of the name is empty"),
        ("sales.orders@", "nothing follows the @"),
        ("sales.orders@ ", "nothing follows the @"),
        ("sales.orders@``", "a part of the name is empty"),
        ("sales.`orders", "a backtick is not closed"),
        ("sales.`orders``", "a backtick is not closed"),
        ("sales.orders@`v1", "a backtick is not closed"),
        ("sales.or`ders", "needs the name in backticks"),
        ("sales.`or`ders", "something follows the backtick at character 10"),
        ("sales.orders@`v1`.x", "something follows the ref"),
        ("sales.orders@`v1`x", "something follows the backtick"),
    ],
)
def test_what_does_not_name_a_table(text: str, why: str) -> None:
    with pytest.raises(BadReference) as caught:
        parse(text, LAKES, "main")
    assert caught.value.message == f"{text!r} does not name a table: {caught.value.message.partition(': ')[2]}"
    assert why in caught.value.message
    assert caught.value.hint == "Write it as [lake.]namespace.table[@ref], for example sales.orders@v1."


def test_a_version_where_a_table_is_asked_for() -> None:
    with pytest.raises(BadReference, match="a table is expected here, not a version \\(@v1\\)"):
        parse_table("sales.orders@v1", LAKES, "main")


def test_the_name_as_others_take_it() -> None:
    name = TableName("eu", ("a.b", "c"), "d")
    assert name.identifier == ("a.b", "c", "d")
    assert name.within_lake == "`a.b`.c.d"
    assert str(name) == "eu.`a.b`.c.d"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-03-01", datetime(2024, 3, 1, tzinfo=UTC)),
        ("2024-03-01T10:30", datetime(2024, 3, 1, 10, 30, tzinfo=UTC)),
        ("2024-03-01 10:30:05", datetime(2024, 3, 1, 10, 30, 5, tzinfo=UTC)),
        ("2024-03-01T10:30:05.250Z", datetime(2024, 3, 1, 10, 30, 5, 250_000, tzinfo=UTC)),
        ("2024-03-01T10:30+02:00", datetime(2024, 3, 1, 8, 30, tzinfo=UTC)),
        ("2024-03-01T00:30+05:45", datetime(2024, 2, 29, 18, 45, tzinfo=UTC)),
    ],
)
def test_times(text: str, moment: datetime) -> None:
    assert parse_time(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "v1",
            "main",
            "2024",
            "20240301",
            "2024-02-30",
            "2024-13-01",
            "2024-03-01T25:00",
            "24-03-01",
            "-2024-03-01",
        ),
        *("2024-03-01T", "2024-nightly", "٢٠٢٤-03-01", "0001-01-01T00:00+23:00", "9999-12-31T23:59-23:00"),
    ],
)
def test_what_is_not_a_time(text: str) -> None:
    assert parse_time(text) is None


zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.one_of(st.none(), zones)))
def test_a_time_is_read_back(moment: datetime) -> None:
    found = parse_time(moment.isoformat())
    assert found == (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    assert found.tzinfo is UTC


@given(st.text() | st.from_regex(r"\A\d{4}-[0-9T:.+Z -]*\Z"))
def test_any_text_is_a_time_or_not(text: str) -> None:
    assert parse_time(text) is None or isinstance(parse_time(text), datetime)
