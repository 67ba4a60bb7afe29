"""Durations and sizes: written, read and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from lakewarden.quantities import (
    Bytes,
    Duration,
    from_millis,
    parse_duration,
    show_duration,
    show_size,
    to_millis,
)

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
THOUSAND_YEARS = 365_000 * UNITS["d"]
SIZES = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3, "TB": 1024**4}


class Example(BaseModel):
    wait: Duration = timedelta()
    size: Bytes = 0


@given(st.integers(0, 10**12))
def test_a_duration_is_read_back(milliseconds: int) -> None:
    value = timedelta(milliseconds=milliseconds)
    shown = show_duration(value)
    if len(shown.rstrip("smhd")) <= 9:
        assert parse_duration(shown) == value


@given(st.integers(0, 10**8), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " "]))
def test_what_a_duration_means(count: int, unit: str, gap: str) -> None:
    assume(count * UNITS[unit] <= THOUSAND_YEARS)
    assert parse_duration(f"{gap}{count}{gap}{unit}{gap}") == timedelta(milliseconds=count * UNITS[unit])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (timedelta(), "0s"),
        (timedelta(days=90), "90d"),
        (timedelta(weeks=2), "14d"),
        (timedelta(hours=36), "36h"),
        (timedelta(minutes=90), "90m"),
        (timedelta(seconds=61), "61s"),
        (timedelta(milliseconds=1500), "1500ms"),
    ],
)
def test_durations_are_shown_shortest(value: timedelta, shown: str) -> None:
    assert show_duration(value) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "d",
        "90",
        "90 days",
        "1d12h",
        "-1d",
        "1.5h",
        "90D",
        "٩٠d",
        "90d\n1h",
        "1234567890s",
        90,
        1.5,
        None,
        True,
        b"1d",
    ],
)
def test_what_is_not_a_duration(text: object) -> None:
    with pytest.raises(ValueError, match="is not a duration: write it as 90d, 12h, 30m or 45s"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["365001d", "52143w", "999999999w"])
def test_a_duration_longer_than_any(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is longer than a thousand years"):
        parse_duration(text)


def test_the_longest_duration() -> None:
    assert parse_duration("365000d") == timedelta(days=365_000)


@given(st.text() | st.from_regex(r"\A\s*\d+\s*(ms|[smhdw])?\s*\Z"))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert parse_duration(text) >= timedelta()
    except ValueError as error:
        told = str(error)
    else:
        return
    assert "duration" in told or "a thousand years" in told


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (4301, "4.2 KB"),
        (318 * 1024**2, "318 MB"),
        (1024**4, "1.0 TB"),
        (5000 * 1024**4, "5,000.0 TB"),
        (-2048, "-2.0 KB"),
    ],
)
def test_sizes_for_people(size: int, shown: str) -> None:
    assert show_size(size) == shown


@given(st.integers(0, 10**17))
def test_a_shown_size_is_near(size: int) -> None:
    number, unit = show_size(size).split(" ")
    shown = float(number.replace(",", "")) * SIZES[unit]
    assert abs(shown - size) <= max(0.051 * SIZES[unit], 0.005 * size)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59)))
def test_milliseconds_are_exact(moment: datetime) -> None:
    whole = moment.replace(microsecond=moment.microsecond // 1000 * 1000, tzinfo=UTC)
    assert from_millis(to_millis(moment.replace(tzinfo=UTC))) == whole


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_every_millisecond_is_read_back(milliseconds: int) -> None:
    assert to_millis(from_millis(milliseconds)) == milliseconds


def test_milliseconds_since_the_epoch() -> None:
    assert from_millis(1_731_661_165_589) == datetime(2024, 11, 15, 8, 59, 25, 589_000, tzinfo=UTC)


def test_in_models() -> None:
    example = Example.model_validate({"wait": "90m", "size": 10})
    assert example.wait == timedelta(minutes=90)
    assert Example.model_validate_json(example.model_dump_json()) == example
    assert example.model_dump(mode="json") == {"wait": "90m", "size": 10}
    with pytest.raises(ValidationError, match="'soon' is not a duration"):
        Example.model_validate({"wait": "soon"})


def test_in_schemas() -> None:
    fields = Example.model_json_schema()["properties"]
    assert fields["wait"]["type"] == "string" and "90d" in fields["wait"]["examples"]
    assert fields["size"]["x-unit"] == "bytes"
