"""Sketches of columns, as Spark's compute_table_stats stored them for a table of five rows and one of a single row."""

from __future__ import annotations

import struct
from base64 import b64decode

import mmh3
import pytest

from lakewarden.engine.proof.sketches import holds_one_of
from lakewarden.engine.proof.wanted import WantedKey
from tests.engine.proof.test_scan import puffin
from tests.engine.proven import Proven, people, wheres

__all__ = ["people"]
FIVE = {
    "long": "AgMDAAAazJMFAAAAAACAPxX5fcu9hqEFQN4u4cnbPQjDl/wSgXCdHuVrYe7IgEQgukCzwdoGaV0=",
    "string": "AgMDAAAazJMFAAAAAACAP2gO9mPXKVo0KRakRAGudjsulX+cBYgrSyuppyPtqh9Z2No6M4QSsW8=",
    "decimal(9, 2)": "AgMDAAAazJMFAAAAAACAP1RD6DMT1wEEj+3RWxOzaR/HvQ/CxzLdLvqoRF1gn/A54F817XUdAHM=",
    "date": "AgMDAAAazJMFAAAAAACAP7M2wNv6lEcHdSAfm23vLijxJwifHinSV8HHgVep54JrqUwIQ72yjnw=",
}
ONE = {"long": "AQMDAAA6zJPla2HuyIBEIA==", "string": "AQMDAAA6zJPY2jozhBKxbw=="}
VALUES = {
    "long": [str(n) for n in range(6)],
    "string": [f"p{n}@example.org" for n in range(6)],
    "decimal(9, 2)": [f"{n}.00" for n in range(6)],
    "date": [f"2000-01-0{n + 1}" for n in range(6)],
}


def key(kind: str, *values: str) -> WantedKey:
    return WantedKey(2, kind, "k", frozenset({"k"}), frozenset(values))


@pytest.mark.parametrize("kind", FIVE)
def test_each_value_is_known_by_its_hash(kind: str) -> None:
    sketch = b64decode(FIVE[kind])
    assert [holds_one_of(sketch, key(kind, value)) for value in VALUES[kind]] == [True] * 5 + [False]
    assert holds_one_of(sketch, key(kind, *VALUES[kind]))


@pytest.mark.parametrize("kind", ONE)
def test_of_a_single_value(kind: str) -> None:
    sketch = b64decode(ONE[kind])
    assert [holds_one_of(sketch, key(kind, value)) for value in VALUES[kind]] == [True] + [False] * 5


@pytest.mark.parametrize("asked", ["int", "long"])
def test_a_column_that_was_widened_meanwhile(asked: str) -> None:
    """Whether it was asked for before or after, sketches from both times tell of a value."""
    after = b64decode(ONE["long"])
    before = after[:8] + struct.pack("<Q", (mmh3.hash64(struct.pack("<i", 0), 9001)[0] & (1 << 64) - 1) >> 1)
    for sketch in (before, after):
        assert holds_one_of(sketch, key(asked, "0"))
        assert not holds_one_of(sketch, key(asked, "1", "-1"))


@pytest.mark.parametrize("asked", ["decimal(9, 2)", "decimal(18, 2)", "decimal(38, 2)"])
def test_a_decimal_is_written_the_same_however_wide(asked: str) -> None:
    sketch = b64decode(FIVE["decimal(9, 2)"])
    assert [holds_one_of(sketch, key(asked, value)) for value in VALUES["decimal(9, 2)"]] == [True] * 5 + [False]


def test_an_empty_one_holds_nothing() -> None:
    assert not holds_one_of(bytes([1, 3, 3, 0, 0, 0b11110, 0xCC, 0x93]), key("long", "0"))


def test_other_forms_are_not_taken_for_empty() -> None:
    with pytest.raises(ValueError, match="unknown sketch format"):
        holds_one_of(bytes([1, 4, 3, 0, 0, 0, 0xCC, 0x93]) + bytes(8), key("long", "0"))


def test_in_a_statistics_file(people: Proven) -> None:
    stored = puffin(b64decode(FIVE["string"]), "zstd", packed_footer=False, kind="apache-datasketches-theta-v1")
    people.put("metadata/x.stats", stored)
    assert wheres(people.prove("p3@example.org")) == ["sketch of column email"]
    assert people.prove("p5@example.org").clean
    assert people.prove("3", column="id", kind="long").clean  # the sketch is of another column
