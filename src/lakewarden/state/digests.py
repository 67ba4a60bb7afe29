"""Keyed digests of key values (HMAC-SHA256), which recognise a value that was deleted when it reappears.

The key never leaves the control database and this module: callers pass values in, and get the requests they belong to.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from threading import Lock
from typing import Any

from lakewarden.records.erasure import Folding

SIZE = 32  # bytes of a digest
_BLOCK = 64  # SHA-256's block size, which keys are padded to
_AT_ONCE = 10_000

Blocks = Sequence[tuple[str, bytes]]
"""Requests, each with the concatenated digests of its values."""


class Digester:
    """Computes digests with one key. The part that depends on the key alone is computed once, which halves the time."""

    def __init__(self, key: bytes) -> None:
        filled = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in filled))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in filled))

    def digests(self, kind: str, texts: Iterable[str]) -> bytes:
        """The concatenated digests of values of one type, given as canonical texts."""
        inner, outer, beginning = self._inner.copy, self._outer.copy, f"{kind}:"
        made = []
        for text in texts:
            first, second = inner(), outer()
            first.update((beginning + text).encode())
            second.update(first.digest())
            made.append(second.digest())
        return b"".join(made)


@dataclass
class Recognizer:
    """Recognises the values of closed requests for one table."""

    keys: tuple[tuple[int, str], ...]
    """The columns, by field id, with their types at the time of the request."""
    _load: Callable[[], Mapping[tuple[int, str, Folding], Blocks]] = field(repr=False)
    _digester: Callable[[], Digester] = field(repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def find(self, field_id: int, kind: str, values: Iterable[str]) -> dict[str, list[str]]:
        """Which of these values, given as canonical texts, belong to closed requests, by request id."""
        found: dict[str, list[str]] = {}
        known = {key[2]: some for key, some in self._known.items() if key[:2] == (field_id, kind)}
        texts = list(values) if known else []
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            for folding, one in known.items():
                for place, requests in one.among(self._made.digests(kind, map(folding.of, some))):
                    for request in requests:
                        found.setdefault(request, []).append(some[place])
        return found

    @property
    def _known(self) -> Mapping[tuple[int, str, Folding], _Known]:
        with self._lock:  # loaded once for all threads
            return self._all

    @cached_property
    def _all(self) -> Mapping[tuple[int, str, Folding], _Known]:
        return {key: _Known(blocks) for key, blocks in self._load().items()}

    @cached_property
    def _made(self) -> Digester:
        return self._digester()


class _Known:
    """The digests of one column, sorted by their first eight bytes: a million take 48 MB."""

    def __init__(self, blocks: Blocks) -> None:
        import numpy

        self._requests = [request for request, _ in blocks]
        self._ends = list(accumulate(len(digests) // SIZE for _, digests in blocks))
        self._digests = b"".join(digests for _, digests in blocks)
        heads = _heads(self._digests)
        self._order = numpy.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def among(self, digests: bytes) -> list[tuple[int, list[str]]]:
        """The indexes of known digests, each with its requests."""
        import numpy

        heads = _heads(digests)
        first = numpy.searchsorted(self._heads, heads, side="left")
        last = numpy.searchsorted(self._heads, heads, side="right")
        found = []
        for place in numpy.flatnonzero(last > first):
            whole = digests[place * SIZE : (place + 1) * SIZE]
            alike = [int(number) for number in self._order[first[place] : last[place]]]
            same = [number for number in alike if self._digests[number * SIZE : (number + 1) * SIZE] == whole]
            if same:
                found.append((int(place), list(dict.fromkeys(self._request(number) for number in same))))
        return found

    def _request(self, number: int) -> str:
        return self._requests[bisect_right(self._ends, number)]


def _heads(digests: bytes) -> Any:
    import numpy

    return numpy.frombuffer(digests, dtype=numpy.uint64)[:: SIZE // 8]
