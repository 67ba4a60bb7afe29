"""Searches any bytes, of any length, for many texts at once: how a proof searches what it cannot decode.

Few texts are searched one by one. For many, every position is tested in three vectorised steps: by two bytes, by a hash
of eight bytes, and by those eight bytes; only the rest is compared. A text that is part of a longer word, as 123456 is
of 9123456, does not match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np

CONTEXT = 128  # bytes of context on both sides of a match
_BLOCK = 4 << 20
_WINDOW = 8
_SAMPLE = 2000
_PARTS = 32
_FEW = 16  # texts that are searched one by one
_MULTIPLIER = 0x9E3779B97F4A7C15  # distributes windows over the hash table
_WORD = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Source(Protocol):
    def read(self, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """Where a text was found, with its context."""

    offset: int
    needle: bytes
    before: bytes
    after: bytes


class Needles:
    """Texts to search for, prepared once. They should have at least six bytes: shorter ones occur by chance."""

    def __init__(self, needles: Iterable[bytes]) -> None:
        import numpy as np

        self._all = set(needles)
        self._lengths = sorted({len(needle) for needle in self._all})
        if not self._all:
            return
        self._longest = self._lengths[-1]
        self._width = min(_WINDOW, self._lengths[0])
        self._from_end, self._skipped = self._most_distinctive()
        windows = {self._window(needle, self._from_end, self._skipped) for needle in self._all}
        padded = b"".join(window.ljust(_WINDOW, b"\0") for window in windows)
        self._windows: np.ndarray[Any, Any] = np.sort(np.frombuffer(padded, "<u8"))
        self._mask = np.uint64((1 << (8 * self._width)) - 1)
        bits = max(16, min(27, (len(windows) * 16).bit_length()))
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[self._hashed(self._windows)] = True
        self._pairs = np.zeros(1 << 16, dtype=bool)
        self._pairs[(self._windows & np.uint64(0xFFFF)).astype(np.intp)] = True

    def __bool__(self) -> bool:
        return bool(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def without(self, needles: Iterable[bytes]) -> Needles:
        return Needles(self._all - set(needles))

    def within(self, content: bytes, embedded: bool = False) -> list[Hit]:
        """All matches in some bytes, in order; those within a longer word only with `embedded`."""
        if not self._all:
            return []
        found = ((start, length) for start, length in self._matches(content))
        hits = [self._hit(content, 0, start, length) for start, length in found]
        return [hit for hit in hits if embedded or not is_embedded(hit)]

    def stream(self, source: Source, count_read: Callable[[int], None] = lambda read: None) -> Iterator[Hit]:
        """The same for a stream, read in blocks; `count_read` receives the number of bytes read."""
        if not self._all:
            return
        kept, start, done = b"", 0, 0  # `kept` begins at `start`; matches before `done` were returned
        while True:
            block = source.read(_BLOCK)
            count_read(len(block))
            content = kept + block
            limit = start + len(content) - (self._longest + CONTEXT if block else 0)
            for at, length in self._matches(content):
                if done <= start + at < limit:
                    hit = self._hit(content, start, at, length)
                    if not is_embedded(hit):
                        yield hit
            if not block:
                return
            done = max(limit, done)
            cut = max(done - CONTEXT - start, 0)
            kept, start = content[cut:], start + cut

    def _most_distinctive(self) -> tuple[bool, int]:
        """The part of the texts that distinguishes them best: its offset, counted from the beginning or the end."""
        some = list(islice(self._all, _SAMPLE))
        parts = [(end, skipped) for skipped in range(self._lengths[0] - self._width + 1) for end in (False, True)]
        return max(parts[:_PARTS], key=lambda part: len({self._window(needle, *part) for needle in some}))

    def _window(self, needle: bytes, from_end: bool, skipped: int) -> bytes:
        start = len(needle) - self._width - skipped if from_end else skipped
        return needle[start : start + self._width]

    def _hashed(self, windows: Any) -> Any:
        import numpy as np

        return ((windows * np.uint64(_MULTIPLIER)) >> self._shift).astype(np.intp)

    def _matches(self, content: bytes) -> Iterator[tuple[int, int]]:
        if len(self._all) <= _FEW:
            yield from sorted(self._one_by_one(content))
            return
        for at in self._candidates(content):
            for length in self._lengths:
                start = at + self._width + self._skipped - length if self._from_end else at - self._skipped
                is_whole = 0 <= start <= len(content) - length
                if is_whole and content[start : start + length] in self._all:
                    yield start, length

    def _one_by_one(self, content: bytes) -> Iterator[tuple[int, int]]:
        for needle in self._all:
            at = content.find(needle)
            while at >= 0:
                yield at, len(needle)
                at = content.find(needle, at + 1)

    def _candidates(self, content: bytes) -> list[int]:
        """Positions where a window of one of the texts occurs."""
        import numpy as np

        count = len(content) - self._width + 1
        if count <= 0:
            return []
        padded = content + b"\0" * _WINDOW
        sides = []
        for side in (0, 1):
            pairs = np.frombuffer(padded, "<u2", (len(content) - side + 1) // 2, side)
            sides.append(np.flatnonzero(self._pairs[pairs]) * 2 + side)
        places = np.concatenate(sides)
        places = np.sort(places[places < count])
        windows = np.ndarray((len(content),), "<u8", padded, strides=(1,))[places] & self._mask
        likely = self._table[self._hashed(windows)]
        places, windows = places[likely], windows[likely]
        nearest = np.minimum(np.searchsorted(self._windows, windows), len(self._windows) - 1)
        found: list[int] = places[self._windows[nearest] == windows].tolist()
        return found

    def _hit(self, content: bytes, start: int, at: int, length: int) -> Hit:
        end = at + length
        before, after = content[max(at - CONTEXT, 0) : at], content[end : end + CONTEXT]
        return Hit(start + at, content[at:end], before, after)


def is_embedded(hit: Hit) -> bool:
    """Whether a match is only a part of a longer word. A length prefix is not part of the word."""
    if not _is_text(hit.needle):
        return False
    left = hit.before[-1:] and hit.before[-1] in _WORD and hit.needle[0] in _WORD
    if left and hit.before[-1] in (len(hit.needle), 2 * len(hit.needle)):
        left = False
    right = hit.after[:1] and hit.after[0] in _WORD and hit.needle[-1] in _WORD
    return bool(left or right)


def _is_text(needle: bytes) -> bool:
    try:
        return needle.decode().isprintable()
    except ValueError:
        return False
