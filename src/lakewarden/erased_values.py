"""Finds erased values in texts and documents, however they are spelled there, and replaces them.

A value with other characters than a word has, such as an address, is replaced everywhere. A long word, which may also
name a database, is replaced in operations about the table, and elsewhere only where values are: in tuples of values and
under some names (`instance`). Short ones and numbers are replaced only there in operations about the table, and then in
the sentences of the same operation. Documents stay valid, and words of ours (`kind`, `state`) stay as they
are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any
from urllib.parse import quote, quote_plus, unquote, unquote_plus

ERASED = "(erased)"
"""In place of a value."""
_TEXTS = ("string", "uuid")
_LONG_WORD, _LONG, _LONG_NUMBER = 8, 6, 7
_SHORT = 2
_FEW = 24  # anchors that are looked for one by one, which is faster
_PLACES = frozenset(
    (
        "instance",
        "instances",
        "view_instance_id",
        "lower",
        "upper",
        "checkpoint",
        "initial_checkpoint",
        "where",
        "empty",
    )
)
"""Names under which documents have values of rows."""
_OURS = frozenset(
    ("kind", "verb", "lease", "route", "digest", "state", "code", "subject", "target", "redacted", "progress", "uuid")
)
_NAMES = frozenset(("lease", "subject", "target", "uuid"))
"""Those of them under which documents name tables and operations, which a value may be equal to."""
_WORD = re.compile(r"\w+")
_PLAIN = re.compile(r"[A-Za-z0-9_.@-]+")
_ESCAPE = re.compile(r"\\[nrtbf]")
_COMPONENT = re.compile(r"(?<=/)([^/=\s'\"]+)=([^/]*)(?=/)")
_AT = re.compile("@|%40")
_TUPLE = re.compile(r"\[[^\[\]]+\]")


@dataclass(frozen=True)
class ErasedValues:
    """The values of some requests."""

    texts: frozenset[str]
    """Canonical texts of all values."""
    words: _Words
    """Those that stand out, in every spelling."""
    paths: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """How paths spell values, by name of a partition field: these may be beginnings."""
    tables: frozenset[str] = frozenset()
    """Names and UUIDs of the tables that the values are from."""
    sentences_only: bool = False

    @staticmethod
    def of(
        keys: Iterable[tuple[str, Iterable[str]]],
        paths: Mapping[str, frozenset[str]],
        tables: Iterable[str],
        ignores_case: bool = False,
    ) -> ErasedValues:
        """Values by their Iceberg type, as canonical texts."""
        texts, words = set[str](), set[str]()
        for kind, values in keys:
            some = set(values) | {value.strip() for value in values}
            texts |= some
            words |= {text for text in some if _stands_out(kind, text)}
        fold = _lower if ignores_case else str
        spelled = (spelling for word in words for spelling in spellings(word))
        return ErasedValues(frozenset(map(fold, texts)), _Words.of(spelled, fold), paths, frozenset(tables))

    def may_be_in(self, raw: str) -> bool:
        """Whether a stored text may have one of the values that stand out, or a path with one. Fast, and may err."""
        return self.words.may_be_in(raw) or any(f"{name}=" in raw for name in self.paths)

    def any_may_be_in(self, raw: str) -> bool:
        """The same for values of any length. Numbers that JSON may write in another way may be in everything."""
        return self._is_written_freely or self.may_be_in(raw) or self._all.may_be_in(raw)

    def without(self, raw: str, small: bool, found: set[str]) -> str:
        """A stored text, a document or plain, without the values; short ones only if `small`, and noted in `found`."""
        document = _parsed(raw) if raw[:1] in ("{", "[", '"') else None
        if document is None:
            return self._text(raw, small, False, found)
        cleaned = self._node(document, small, False, found)
        return raw if cleaned == document else _dumped(cleaned, document, raw)

    def within(self, found: Iterable[str]) -> ErasedValues:
        """The same with these values as words, for the sentences about places where they were found."""
        more = _Words.of((spelling for text in found for spelling in spellings(text)), self.words.fold)
        return ErasedValues(frozenset(), more, sentences_only=True)

    @cached_property
    def addresses(self) -> _Words:
        """The spellings that are more than a word or a number."""
        return _Words.of((text for text in self.words.known if not _WORD.fullmatch(text)), self.words.fold)

    def is_left_in(self, raw: str) -> bool:
        """Whether a cleaned text, a document or plain, still has a value that is more than a word or a number."""
        return self.addresses.may_be_in(raw) and any(self.addresses.spans(text) for text in _leaves(raw, False))

    def path(self, path: str, words: bool = False) -> str:
        """A path, or a text with paths, without the values; without those that are a single word only if `words`.

        So are partitions: another table may have a partition field of the same name.
        """
        if self.sentences_only and " " not in path:
            return path
        chosen = self.words if words or self.sentences_only else self.addresses
        if "=" in path:
            path = _COMPONENT.sub(lambda match: self._component(match, chosen, words), path)
        return chosen.replaced(path)

    def _node(self, node: Any, small: bool, is_place: bool, found: set[str]) -> Any:
        if isinstance(node, dict):
            return {
                self._name(name): value
                if name in _OURS
                else self._node(value, small, is_place or name in _PLACES, found)
                for name, value in node.items()
            }
        if isinstance(node, list):
            return [self._node(each, small, is_place, found) for each in node]
        if isinstance(node, str):
            return self._text(node, small, is_place, found)
        if is_place and self._is_value(node) and (small or str(node) in self.addresses.known):
            found.add(str(node))
            return ERASED
        return node

    def _name(self, name: str) -> str:
        """A document's key without values; words are names of ours."""
        return name if _WORD.fullmatch(name) else self.addresses.replaced(self.path(name))

    def _text(self, text: str, small: bool, is_place: bool, found: set[str]) -> str:
        if small and is_place and self.words.fold(text) in self.texts:
            found.add(text)
            return ERASED
        if text[:1] in ("{", "["):
            document = _parsed(text)
            if document is not None:
                is_tuple = isinstance(document, list)
                cleaned = self._node(document, small, is_place or is_tuple, found)
                return text if cleaned == document else _dumped(cleaned, document, text)
        text = self.path(text, small or is_place)
        if small and "[" in text:
            text = _TUPLE.sub(lambda each: self._tuple(each[0], found), text)
        if small and is_place:
            text = self._literals(text, found)
        return text

    def _tuple(self, text: str, found: set[str]) -> str:
        document = _parsed(text)
        if not isinstance(document, list):
            return text
        cleaned = self._node(document, True, True, found)
        return text if cleaned == document else _dumped(cleaned, document, text)

    def _literals(self, text: str, found: set[str]) -> str:
        """A condition without values, whole words of any length."""

        def replaced(match: re.Match[str]) -> str:
            if self.words.fold(match[0]) not in self.texts:
                return match[0]
            found.add(match[0])
            return ERASED

        return _WORD.sub(replaced, text)

    def _component(self, match: re.Match[str], words: _Words, is_own: bool) -> str:
        name, part = match[1], match[2]
        spelled = self.paths.get(name, frozenset()) if is_own else frozenset()
        readings = {reading for plain in _unescaped(part) for reading in (plain, unquote(plain), unquote_plus(plain))}
        if spelled.isdisjoint(readings) and words.known.isdisjoint(map(words.fold, readings)):
            return match[0]
        return f"{name}=*"

    def _is_value(self, node: Any) -> bool:
        if isinstance(node, bool) or not isinstance(node, int | float):
            return False
        return str(node) in self.texts or (isinstance(node, float) and node in self._numbers)

    @cached_property
    def _all(self) -> _Words:
        return _Words.of((spelling for text in self.texts for spelling in spellings(text)), self.words.fold)

    @cached_property
    def _is_written_freely(self) -> bool:
        return any(not text.isdigit() for text in self.texts if _number(text) is not None or not _WORD.search(text))

    @cached_property
    def _numbers(self) -> frozenset[float]:
        return frozenset(number for text in self.texts if (number := _number(text)) is not None)


@dataclass(frozen=True)
class _Words:
    """Texts that are replaced where they stand as whole words, found by one word of each."""

    known: frozenset[str]
    anchors: Mapping[str, frozenset[tuple[int, int]]]
    """By a word of them: how far it is from the beginning, and how long the text is."""
    fold: Callable[[str], str] = str

    @staticmethod
    def of(texts: Iterable[str], fold: Callable[[str], str] = str) -> _Words:
        known = frozenset(fold(text) for text in texts)
        anchors: dict[str, set[tuple[int, int]]] = {}
        for text in known:
            own = [word for word in _WORD.findall(_AT.split(text)[0]) if len(word) > _SHORT]
            words = own or _WORD.findall(text)  # not of the domain, which many have
            if words:
                anchor = max(words, key=len)
                anchors.setdefault(anchor, set()).add((_start_of(anchor, text), len(text)))
        return _Words(known, {word: frozenset(places) for word, places in anchors.items()}, fold)

    def may_be_in(self, text: str) -> bool:
        folded = self.fold(text)
        if len(self.anchors) <= _FEW:
            return any(anchor in folded for anchor in self.anchors)
        return any(not self.anchors.keys().isdisjoint(_WORD.findall(form)) for form in _readings(folded))

    def replaced(self, text: str) -> str:
        """The text with `(erased)` in place of each, the longest where they overlap."""
        if not self.anchors or not self.may_be_in(text):
            return text
        parts, end = [], 0
        for start, stop in self.spans(text):
            if start >= end:
                parts += [text[end:start], ERASED]
                end = stop
        return "".join([*parts, text[end:]])

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where they stand, from first to last, longer ones first."""
        found = {span for folded in _readings(self.fold(text)) for span in self._within(folded)}
        return sorted(found, key=lambda span: (span[0], -span[1]))

    def _within(self, folded: str) -> Iterator[tuple[int, int]]:
        for word in _WORD.finditer(folded):
            for before, length in self.anchors.get(word[0], ()):
                start = word.start() - before
                end = start + length
                is_there = 0 <= start < end <= len(folded) and folded[start:end] in self.known
                if is_there and _is_whole(folded, start, end):
                    yield start, end


def _leaves(node: Any, is_place: bool) -> Iterator[str]:
    """The texts of a document, also of those within texts, and numbers where values are; not what names tables."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield name
            if name not in _NAMES:
                yield from _leaves(value, is_place or name in _PLACES)
    elif isinstance(node, list):
        for each in node:
            yield from _leaves(each, is_place)
    elif isinstance(node, str):
        document = _parsed(node) if node[:1] in ("{", "[", '"') else None
        if isinstance(document, dict | list):
            yield from _leaves(document, is_place or isinstance(document, list))
        else:
            yield node
    elif is_place and isinstance(node, int | float):
        yield str(node)


def _readings(text: str) -> Iterator[str]:
    """A text as it is, and with blanks for escapes such as a line break's, whose letter is no part of a word."""
    yield text
    if "\\" in text:
        yield _ESCAPE.sub("  ", text)  # as long, so that places stay the same


def _start_of(word: str, text: str) -> int:
    """Where a word is in a text as a whole word."""
    start = text.find(word)
    if _is_word(text[start - 1 : start]) or _is_word(text[start + len(word) : start + len(word) + 1]):
        return next(found.start() for found in _WORD.finditer(text) if found[0] == word)
    return start


def spellings(value: str) -> Iterator[str]:
    """How a value may be written within a text."""
    yield value
    if _PLAIN.fullmatch(value):  # as it is everywhere, or nearly so
        if "@" in value:
            yield value.replace("@", "%40")
        return
    in_json = json.dumps(value)[1:-1]
    yield from (in_json, json.dumps(in_json)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1])
    yield from (quote(value), quote(value, safe=""), quote_plus(value), value.replace("'", "''"))


def _stands_out(kind: str, text: str) -> bool:
    """Whether a value is not likely to be a word or a number that means something else."""
    if kind not in _TEXTS:
        return kind != "date" and sum(map(str.isdigit, text)) >= _LONG_NUMBER
    return len(text) >= _LONG_WORD or (len(text) >= _LONG and not text.isalpha() and not text.isdigit())


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether a part of a text is not itself a part of a longer word, address or number."""
    before, after = text[max(start - 2, 0) : start][::-1], text[end : end + 2]
    return not (_goes_on(text[start], before) or _goes_on(text[end - 1], after))


def _goes_on(last: str, following: str) -> bool:
    """Whether the word that a letter is in, or the address, goes on in what follows."""
    if not _is_word(last) or not following:
        return False
    return _is_word(following[0]) or (following[0] in ".@+-" and _is_word(following[1:]))


def _is_word(character: str) -> bool:
    return bool(_WORD.match(character))


def _lower(text: str) -> str:
    """In lower case, letter by letter, so that places stay the same."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def _unescaped(part: str) -> Iterator[str]:
    yield part
    if "\\" in part:
        try:
            yield str(json.loads(f'"{part}"'))
        except ValueError:
            return


def _number(text: str) -> float | None:
    try:
        return float(Decimal(text))
    except InvalidOperation:
        return None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _dumped(cleaned: Any, document: Any, before: str) -> str:
    """A document as JSON in the style that it had."""
    is_compact = json.dumps(document, separators=(",", ":"), ensure_ascii=before.isascii()) == before
    return json.dumps(cleaned, separators=(",", ":") if is_compact else None, ensure_ascii=before.isascii())
