"""Checks whether a doubtful trace comes from a remaining row: looks for a row that yields the same.

A truncated bound, a bucket number and the like stand for many values. They reveal an erased one only if no remaining
row yields them. Reads the key columns of data files that can explain a doubt, until all doubts are explained.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from lakewarden.engine.proof.byte_search import CONTEXT
from lakewarden.engine.proof.parquet import columns_of, matches, opened, values_of
from lakewarden.engine.proof.wanted import Around, Doubt, Image, Prefix, WantedKey, text_of, transformed
from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.engine.proof.avro import ListedFile
    from lakewarden.engine.storage.storage import StoredFiles


def unexplained(
    doubts: Iterable[Doubt], keys: Sequence[WantedKey], files: Iterator[ListedFile], storage: StoredFiles
) -> set[Doubt]:
    """The doubts that no remaining row explains: they are traces."""
    open_doubts = {key.field_id: _Doubts(key, doubts) for key in keys}
    looked_at: set[int] = set()
    for file in files:
        wanted = [doubt for doubt in open_doubts.values() if doubt.can_be_explained_by(file)]
        if wanted and hash(file.path) not in looked_at:
            looked_at.add(hash(file.path))
            for doubt in wanted:
                _explain(doubt, file.path, storage)
        if not any(open_doubts.values()):
            break
    left = [set(some.left()) for some in open_doubts.values()]
    explained = [some.explained for some in open_doubts.values()]
    return {doubt for doubt in set().union(*left) if not any(doubt in done for done in explained)}


class _Doubts:
    """The doubtful traces of one key."""

    def __init__(self, key: WantedKey, doubts: Iterable[Doubt]) -> None:
        mine = [doubt for doubt in doubts if isinstance(doubt, Around) or doubt.field_id == key.field_id]
        self.key = key
        self._prefixes = {doubt.text: doubt for doubt in mine if isinstance(doubt, Prefix)}
        self._images = {doubt for doubt in mine if isinstance(doubt, Image)}
        self._around = {doubt: text_of(doubt.needle, key) for doubt in mine if isinstance(doubt, Around)}
        self.explained: set[Doubt] = set()

    def __bool__(self) -> bool:
        return bool(self._prefixes or self._images or any(self._around.values()))

    def left(self) -> Iterator[Doubt]:
        yield from self._prefixes.values()
        yield from self._images
        yield from self._around

    def can_be_explained_by(self, file: ListedFile) -> bool:
        if any(self._around.values()):
            return True
        lower, upper = file.bounds.get(self.key.field_id, (None, None))
        for prefix in self._prefixes:
            above = isinstance(lower, str) and lower[: len(prefix)] > prefix
            below = isinstance(upper, str) and upper[: len(prefix)] < prefix
            if not above and not below:
                return True
        return any(
            file.partition.get((doubt.field_id, doubt.transform), doubt.token) == doubt.token for doubt in self._images
        )

    def explain(self, values: pa.Array) -> bool:
        """Remove the doubts that these values explain; returns whether any remain. Erased values explain nothing."""
        import pyarrow.compute as pc

        survivors = values.filter(pc.invert(matches(values, self.key))).drop_null()
        if len(survivors):
            self._explain_prefixes(survivors)
            self._explain_images(survivors)
            self._explain_surroundings(survivors)
        return bool(self)

    def _explain_prefixes(self, values: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        for length in {len(prefix) for prefix in self._prefixes}:
            begun = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, length)
            some = pa.array([prefix for prefix in self._prefixes if len(prefix) == length], pa.string())
            for prefix in pc.unique(begun.filter(pc.is_in(begun, value_set=some))).to_pylist():
                self.explained.add(self._prefixes.pop(prefix))

    def _explain_images(self, values: pa.Array) -> None:
        import pyarrow.compute as pc

        if not self._images:
            return
        different = pc.unique(values.cast(self.key.arrow.type)).to_pylist()
        for transform in {doubt.transform for doubt in self._images}:
            yielded = transformed(self.key, transform, different)
            done = {doubt for doubt in self._images if doubt.transform == transform and doubt.token in yielded}
            self._images -= done
            self.explained |= done

    def _explain_surroundings(self, values: pa.Array) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        for text in {text for text in self._around.values() if text}:
            longer = values.filter(pc.match_substring(values.cast(pa.string()), text))
            for value in pc.unique(longer).to_pylist():
                done = {
                    doubt for doubt, of in self._around.items() if of == text and _stands_within(doubt, value, text)
                }
                self.explained |= done
                for doubt in done:
                    del self._around[doubt]


def _stands_within(doubt: Around, value: str, text: str) -> bool:
    """Whether a match is part of a longer value at its position, in the same spelling."""
    for spell in (str, quote_plus, lambda part: json.dumps(part)[1:-1]):
        spelled = spell(text).encode()
        if spelled != doubt.needle:
            continue
        whole, start = spell(value).encode(), -1
        while (start := whole.find(spelled, start + 1)) >= 0:
            ahead, behind = whole[:start], whole[start + len(spelled) :]
            fits = doubt.after.startswith(behind[:CONTEXT]) or ahead  # the end may be missing, as in truncated bounds
            if doubt.before.endswith(ahead[-CONTEXT:]) and fits:
                return True
    return False


def _explain(doubts: _Doubts, path: str, storage: StoredFiles) -> None:
    """Check the key's values in a file; an unreadable file explains nothing, and is reported elsewhere."""
    try:
        with storage.open(path) as source, opened(source) as file:
            for column in columns_of(file.schema_arrow, doubts.key, by_name=False):
                for values in values_of(file, column):
                    if not doubts.explain(values):
                        return
    except (LakewardenError, OSError, ValueError):  # Arrow's errors are of these kinds, and may quote a value
        return
