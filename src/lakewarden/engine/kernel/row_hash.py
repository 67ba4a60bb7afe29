"""A 128-bit hash of every row of a batch, computed column by column with numpy.

Two rows of the same schema have the same hash if their values are equal as comparisons define it: NULL equals NULL,
NaN equals NaN, 0.0 equals -0.0, lists in order, maps in any order. Callers bring both sides to one schema first, so
that decimals have one scale and timestamps one unit. The hash is for data that nobody crafted to collide: it is not
cryptographic, and it is never stored.

Each value is split into 64-bit words. Every word is mixed with a constant of its place and the results are added, in
two lanes with different constants. A value of one word stands for itself until its row's columns are combined: mixing
it twice would cost time and gain nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

is_ = pa.types
U64 = np.uint64
_MULTIPLIERS = (U64(0xD6E8FEB86659FD93), U64(0x9FB21C651E98DF25))  # one for each lane
_SEEDS = (0x8EBC6AF09C88C6E3, 0x589965CC75374CC3)
_GOLDEN = 0x9E3779B97F4A7C15
_WORD = 0xFFFFFFFFFFFFFFFF
_NULL = 0x6E756C6C
_SHORT = 8  # words
_HALF, _THIRD = U64(32), U64(29)
_TAIL_MASKS = np.array([_WORD] + [(1 << (8 * size)) - 1 for size in range(1, 8)], dtype=U64)

Lanes = tuple[Any, Any]
"""Two arrays of 64-bit words, one pair a row."""


def hash_rows(batch: Any) -> Lanes:
    """The hashes of a batch's rows over all its columns."""
    return combined([hash_column(column) for column in batch.columns], batch.num_rows)


def combined(columns: Sequence[Lanes], rows: int) -> Lanes:
    """One hash of the hashes of several columns."""
    return _finished(_sum_of([_placed(lanes, place) for place, lanes in enumerate(columns)], rows))


def spread(words: Any) -> Any:
    """Hashes of 64-bit words that are spread evenly, as those of columns need not be."""
    return _mixed(words, _MULTIPLIERS[0])


def hash_column(array: Any) -> Lanes:
    """The hashes of a column's values."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if is_.is_dictionary(array.type):
        words = hash_column(array.dictionary)
        places = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = (words[0][places], words[1][places]) if len(words[0]) else _constant(_NULL, len(array))
        return _with_nulls(array, found)
    return _with_nulls(array, _hash_valid(array))


def _hash_valid(array: Any) -> Lanes:
    """Hashes where values of nulls do not matter."""
    kind = array.type
    if is_.is_struct(kind):
        inner = [hash_column(array.field(index)) for index in range(kind.num_fields)]
        return combined(inner, len(array))
    if is_.is_map(kind):
        entries = combined([hash_column(array.keys), hash_column(array.items)], len(array.keys))
        return _lists(array, entries, ordered=False)
    if is_.is_list(kind) or is_.is_large_list(kind):
        return _lists(array, hash_column(array.values), ordered=True)
    if is_.is_null(kind):
        return _constant(_NULL, len(array))
    if is_.is_string(kind) or is_.is_large_string(kind) or is_.is_binary(kind) or is_.is_large_binary(kind):
        return _texts(array)
    words = _words(array)
    if len(words) == 1:
        return words[0], words[0]
    return _sum_of([_placed_words(each, place) for place, each in enumerate(words)], len(array))


def _words(array: Any) -> list[Any]:
    """Values of a fixed width as 64-bit words."""
    kind = array.type
    if is_.is_boolean(kind):
        return [_numbers(array.cast(pa.uint8())).astype(U64)]
    if is_.is_floating(kind):
        values = _numbers(array.cast(pa.float64())) + 0.0  # -0.0 becomes 0.0
        return [np.where(np.isnan(values), np.nan, values).view(U64)]
    if is_.is_integer(kind):
        return [_numbers(array.cast(pa.int64())).view(U64)]
    if is_.is_date32(kind) or is_.is_time32(kind):
        return [_numbers(array.cast(pa.int32()).cast(pa.int64())).view(U64)]
    if is_.is_timestamp(kind) or is_.is_time64(kind) or is_.is_date64(kind):
        return [_numbers(array.cast(pa.int64())).view(U64)]
    if is_.is_decimal(kind) or is_.is_fixed_size_binary(kind):
        return _fixed(array, kind.byte_width)
    raise TypeError(f"values of type {kind} cannot be compared")


def _numbers(array: Any) -> Any:
    """A numeric array's values; whatever lies in the places of nulls is left there."""
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None:
        return np.zeros(len(array), dtype=array.type.to_pandas_dtype())
    return np.frombuffer(buffer, dtype=array.type.to_pandas_dtype(), count=len(array), offset=array.offset * width)


def _fixed(array: Any, width: int) -> list[Any]:
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return [np.zeros(len(array), dtype=U64)]
    content = np.frombuffer(buffer, dtype=np.uint8, count=len(array) * width, offset=array.offset * width)
    rows = content.reshape(len(array), width)
    if width % 8:
        rows = np.pad(rows, ((0, 0), (0, 8 - width % 8)))
    words = np.ascontiguousarray(rows).view(U64)
    return [np.ascontiguousarray(words[:, place]) for place in range(words.shape[1])]


def _texts(array: Any) -> Lanes:
    """Texts and bytes of any length, 8 bytes at a time."""
    starts, ends = _offsets(array)
    sizes = ends - starts
    content = array.buffers()[2]
    counts = (sizes + 7) >> 3
    total = int(counts.sum())
    if content is None or not total:
        return _placed_words(sizes.astype(U64), 0)
    first = int(starts[0]) if len(starts) else 0
    padded = np.zeros(int(ends[-1]) - first + 8, dtype=np.uint8)
    padded[:-8] = np.frombuffer(content, dtype=np.uint8, count=len(padded) - 8, offset=first)
    sliding = np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded.data, strides=(1,))
    if int(counts.max()) <= _SHORT:
        return _short_texts(sliding, starts - first, sizes, counts)
    bounds = np.concatenate(([0], np.cumsum(counts)))
    place = np.arange(total, dtype=np.int64) - np.repeat(bounds[:-1], counts)
    words = sliding[np.repeat(starts - first, counts) + (place << 3)]
    has_words = counts > 0
    words[bounds[1:][has_words] - 1] &= _TAIL_MASKS[sizes[has_words] & 7]
    spread = place.astype(U64) * U64(_GOLDEN)
    mixed = tuple(_mixed(words ^ (spread + U64(seed)), multiplier) for seed, multiplier in _lanes())
    sums = _segment_sums((mixed[0], mixed[1]), bounds)
    return _sum_of([sums, _placed_words(sizes.astype(U64), 0)], len(array))


def _short_texts(sliding: Any, starts: Any, sizes: Any, counts: Any) -> Lanes:
    """The same for texts of a few words, word by word: no text is taken apart that does not have that many."""
    first, second = _placed_words(sizes.astype(U64), 0)
    for place in range(int(counts.max())):
        rows = slice(None) if place < int(counts.min()) else np.flatnonzero(counts > place)
        left = sizes[rows] - 8 * place
        words = sliding[starts[rows] + 8 * place]
        words &= _TAIL_MASKS[np.where(left < 8, left, 0)]
        spread = (place * _GOLDEN) & _WORD
        for lane, (seed, multiplier) in zip((first, second), _lanes(), strict=True):
            lane[rows] += _mixed(words ^ U64((spread + seed) & _WORD), multiplier)
    return first, second


def _lists(array: Any, elements: Lanes, ordered: bool) -> Lanes:
    """Sums over the elements of each list; in order, each is mixed with its place."""
    starts, ends = _offsets(array)
    counts = ends - starts
    begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
    inner: Lanes = (elements[0][begin:end], elements[1][begin:end])
    bounds = np.concatenate(([0], np.cumsum(counts)))
    if ordered:
        place = np.arange(end - begin, dtype=np.int64) - np.repeat(bounds[:-1], counts)
        spread = place.astype(U64) * U64(_GOLDEN)
        mixed = [_mixed(lane + (spread + U64(seed)), m) for lane, (seed, m) in zip(inner, _lanes(), strict=True)]
        inner = (mixed[0], mixed[1])
    return _sum_of([_segment_sums(inner, bounds), _placed_words(counts.astype(U64), 0)], len(array))


def _offsets(array: Any) -> tuple[Any, Any]:
    """Where the content of each value begins and ends. Contents follow each other, those of nulls included."""
    large = is_.is_large_string(array.type) or is_.is_large_binary(array.type) or is_.is_large_list(array.type)
    width = 8 if large else 4
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        none = np.zeros(len(array), dtype=np.int64)
        return none, none
    kind = np.int64 if large else np.int32
    offsets = np.frombuffer(buffer, dtype=kind, count=len(array) + 1, offset=array.offset * width).astype(np.int64)
    return offsets[:-1], offsets[1:]


def _segment_sums(lanes: Lanes, bounds: Any) -> Lanes:
    """The sum of each segment, modulo 2**64; an empty one has the sum 0."""
    sums = [np.concatenate((np.zeros(1, dtype=U64), np.cumsum(lane, dtype=U64))) for lane in lanes]
    first, second = (running[bounds[1:]] - running[bounds[:-1]] for running in sums)
    return first, second


def _with_nulls(array: Any, lanes: Lanes) -> Lanes:
    if not array.null_count:
        return lanes
    null = array.is_null().to_numpy(zero_copy_only=False)
    missing = _constant(_NULL, 1)
    return np.where(null, missing[0], lanes[0]), np.where(null, missing[1], lanes[1])


def _constant(value: int, rows: int) -> Lanes:
    return _placed_words(np.full(rows, value, dtype=U64), 1)


def _placed(lanes: Lanes, place: int) -> Lanes:
    """Hashes mixed with the place of their column."""
    first, second = (
        _mixed(lane + U64((seed + place * _GOLDEN) & _WORD), multiplier)
        for lane, (seed, multiplier) in zip(lanes, _lanes(), strict=True)
    )
    return first, second


def _placed_words(words: Any, place: int) -> Lanes:
    return _placed((words, words), place)


def _sum_of(parts: Sequence[Lanes], rows: int) -> Lanes:
    if not parts:
        return np.zeros(rows, dtype=U64), np.zeros(rows, dtype=U64)
    first, second = parts[0]
    for one, other in parts[1:]:
        first, second = first + one, second + other
    return first, second


def _finished(lanes: Lanes) -> Lanes:
    first, second = (_mixed(lane, multiplier) for lane, (_, multiplier) in zip(lanes, _lanes(), strict=True))
    return first, second


def _lanes() -> tuple[tuple[int, Any], ...]:
    return tuple(zip(_SEEDS, _MULTIPLIERS, strict=True))


def _mixed(words: Any, multiplier: Any) -> Any:
    """A bijection that spreads every bit over the whole word."""
    mixed = words ^ (words >> _HALF)
    mixed *= multiplier
    mixed ^= mixed >> _THIRD
    mixed *= multiplier
    mixed ^= mixed >> _HALF
    return mixed


def is_null_in_any(batch: Any, columns: Sequence[int]) -> Any:
    """Which rows have a null in one of the columns."""
    found = np.zeros(batch.num_rows, dtype=bool)
    for index in columns:
        column = batch.column(index)
        if column.null_count:
            found |= pc.is_null(column).to_numpy(zero_copy_only=False)
    return found
