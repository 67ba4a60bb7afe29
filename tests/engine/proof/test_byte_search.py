"""Looking for many texts at once in bytes."""

from __future__ import annotations

import io
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.engine.proof import byte_search
from lakewarden.engine.proof.byte_search import CONTEXT, Hit, Needles, is_embedded

ALPHABET = "ab@.1 "


def plainly(needles: list[bytes], content: bytes) -> set[tuple[int, bytes]]:
    """The same, looked for as simply as can be."""
    found = set()
    for needle in needles:
        at = content.find(needle)
        while at >= 0:
            found.add((at, needle))
            at = content.find(needle, at + 1)
    return found


@given(
    st.lists(st.text(ALPHABET, min_size=6, max_size=14), min_size=1, max_size=8),
    st.text(ALPHABET, max_size=300),
)
def test_finds_what_a_plain_search_finds(needles: list[str], content: str) -> None:
    """However many there are: few are looked for one by one, many all at once, and both find the same in one order."""
    wanted = [needle.encode() for needle in needles]
    one_by_one = Needles(wanted).within(content.encode(), embedded=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(byte_search, "_FEW", 0)
        at_once = Needles(wanted).within(content.encode(), embedded=True)
    assert sorted((hit.offset, hit.needle) for hit in one_by_one) == sorted(plainly(wanted, content.encode()))
    assert sorted(at_once, key=_place) == sorted(one_by_one, key=_place)


def _place(hit: Hit) -> tuple[int, int]:
    return hit.offset, len(hit.needle)


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_in_blocks_as_in_one_piece(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(byte_search, "_BLOCK", 1000)
    dice = random.Random(7)
    needles = [f"someone-{n}@example.org".encode() for n in range(count)]
    content = bytearray(dice.randbytes(20_000))
    places = (0, 990, 1990, 5000, 5400, 19_950)
    for at in places:
        some = b" " + dice.choice(needles) + b" "
        content[at : at + len(some)] = some
    read: list[int] = []

    hits = list(Needles(needles).stream(io.BytesIO(bytes(content)), read.append))

    assert hits == Needles(needles).within(bytes(content))
    assert [hit.offset for hit in hits] == [at + 1 for at in places]
    assert sum(read) == len(content)
    for hit in hits:
        end = hit.offset + len(hit.needle)
        assert hit.before == bytes(content[max(hit.offset - CONTEXT, 0) : hit.offset])
        assert hit.after == bytes(content[end : end + CONTEXT])


def test_texts_that_begin_or_end_alike() -> None:
    alike = [f"customer-{n:06}".encode() for n in range(2000)]
    assert [hit.needle for hit in Needles(alike).within(b"x customer-000123, customer-002000 y")] == [
        b"customer-000123"
    ]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"id 123456.", 1),
        (b"id 9123456", 0),
        (b"1234567", 0),
        (b"\x06123456", 1),
        (b"=123456/", 1),
        (b"a123456b", 0),
        (b'"123456"', 1),
    ],
)
def test_a_part_of_a_longer_word_is_another_word(content: bytes, found: int) -> None:
    assert len(Needles([b"123456"]).within(content)) == found


def test_a_length_before_a_text_is_no_part_of_it() -> None:
    text = b"x" * 48
    assert not is_embedded(Hit(1, text, b"0", b""))  # 48 is the character 0
    assert is_embedded(Hit(1, text, b"1", b""))


def test_bytes_that_are_no_text_have_no_words() -> None:
    raw = bytes(range(0x80, 0x8F)) + b"a"
    assert len(Needles([raw]).within(b"z" + raw + b"z")) == 1


def test_nothing_to_look_for() -> None:
    nothing = Needles([])
    assert not nothing and nothing.within(b"anything") == [] and list(nothing.stream(io.BytesIO(b"anything"))) == []
