"""Checks that new files are within the bounds of the files they replace.

A rewrite creates no values: the minimum and maximum in a new file's footer must be within the bounds that the table's
metadata has for the inputs. Bounds may be truncated and may be loose, so nothing stricter can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from lakewarden.engine.files.manifests import entries_at
from lakewarden.errors import BrokenTable, VerificationFailed

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile, ManifestEntry
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import PrimitiveType

    from lakewarden.engine.files.live_files import LiveFile

Key = TypeVar("Key", bound=Hashable)
_UUID_BYTES = 16
_READERS = 8


class Bounds:
    """The bounds of some files, column by column; its size hardly depends on their number."""

    def __init__(self, schema: Schema) -> None:
        from pyiceberg.types import PrimitiveType, UUIDType

        kinds = {field.name: (field.field_id, field.field_type) for field in schema.fields}
        self._columns: dict[str, _Span | _Uuids] = {
            name: _Uuids(id) if isinstance(kind, UUIDType) else _Span(id, kind)
            for name, (id, kind) in kinds.items()
            if isinstance(kind, PrimitiveType)
        }

    def add(self, file: DataFile) -> None:
        for column in self._columns.values():
            if not _is_empty(file, column.id):
                column.add(file)

    def check(self, about: str, outputs: Sequence[DataFile], besides: Collection[int] = ()) -> None:
        """Refuse new files with values that none of the inputs can have held, `besides` columns that got new values."""
        for name, column in self._columns.items():
            if column.id not in besides and any(column.excludes(file) for file in outputs):
                raise VerificationFailed(
                    f"{about}: new files have values of {name} outside the bounds of the old ones",
                    "Nothing was published. Either the old files' bounds in the table's metadata are wrong, "
                    "and reads that filter on that column miss rows, or this is a bug.",
                )


def bounds_of(table: Table, groups: Mapping[Key, Iterable[LiveFile]]) -> dict[Key, Bounds]:
    """The bounds of each group of files. Read before the rewrite, because the manifests may expire meanwhile."""
    schema = table.schema()
    found = {key: Bounds(schema) for key in groups}
    wanted: dict[str, dict[str, Bounds]] = {}
    for key, files in groups.items():
        for file in files:
            wanted.setdefault(file.manifest, {})[file.path] = found[key]
    adding = Lock()  # files of one group may be in several manifests

    def read(manifest: str) -> None:
        left = wanted[manifest]
        for entry in entries_at(table.io, manifest):
            bounds = left.pop(entry.data_file.file_path, None) if _is_live(entry) else None
            if bounds is not None:
                with adding:
                    bounds.add(entry.data_file)
        if left:
            raise BrokenTable(f"the manifest {manifest} does not list {next(iter(left))}", "Plan again.")

    with ThreadPoolExecutor(_READERS, thread_name_prefix="bounds") as readers:
        list(readers.map(read, wanted))
    return found


def _is_live(entry: ManifestEntry) -> bool:
    from pyiceberg.manifest import ManifestEntryStatus

    return entry.status != ManifestEntryStatus.DELETED


class _Span:
    """The minimum and maximum of a column; unknown if one of the files has no bounds for it."""

    def __init__(self, id: int, kind: PrimitiveType) -> None:
        from pyiceberg.types import BinaryType, FixedType, StringType

        self.id = id
        self._kind = kind
        self._by_prefix = isinstance(kind, StringType | BinaryType | FixedType)
        self._lows = _Extreme(min)
        self._highs = _Extreme(max)

    def add(self, file: DataFile) -> None:
        self._lows.add(_bound(file.lower_bounds, self.id, self._kind))
        self._highs.add(_bound(file.upper_bounds, self.id, self._kind))

    def excludes(self, file: DataFile) -> bool:
        lower, upper = self._lows.value, self._highs.value
        low, high = (_bound(bounds, self.id, self._kind) for bounds in (file.lower_bounds, file.upper_bounds))
        below = lower is not None and low is not None and _is_below(low, lower, self._by_prefix)
        above = upper is not None and high is not None and _is_below(upper, high, self._by_prefix)
        return below or above


class _Extreme:
    """The minimum or maximum of values; None if there are none, or if one is unknown."""

    def __init__(self, choose: Callable[[Any, Any], Any]) -> None:
        self._choose = choose
        self._is_known = True
        self._found: Any = None

    @property
    def value(self) -> Any:
        return self._found if self._is_known else None

    def add(self, value: Any) -> None:
        if value is None:
            self._is_known = False
        elif self._is_known:
            self._found = value if self._found is None else self._choose(self._found, value)


class _Uuids:
    """Whether a bound of a new file, which is one of its values, can come from one of the inputs.

    Java compared UUIDs as pairs of signed numbers for a long time, others compare bytes, and files do not state which.
    So each file's bounds are checked in both orders; the minimum of bounds in mixed orders would be meaningless.
    """

    def __init__(self, id: int) -> None:
        self.id = id
        self._spans: set[tuple[bytes | None, bytes | None]] = set()

    def add(self, file: DataFile) -> None:
        self._spans.add((_uuid(file.lower_bounds, self.id), _uuid(file.upper_bounds, self.id)))

    def excludes(self, file: DataFile) -> bool:
        found = [_uuid(bounds, self.id) for bounds in (file.lower_bounds, file.upper_bounds)]
        return any(value and self._spans and not any(_may_be_within(value, *s) for s in self._spans) for value in found)


def _uuid(bounds: dict[int, bytes] | None, field_id: int) -> bytes | None:
    """The bytes of a UUID bound, which is never truncated; other lengths are ignored."""
    found = (bounds or {}).get(field_id)
    return found if found is not None and len(found) == _UUID_BYTES else None


def _may_be_within(value: bytes, low: bytes | None, high: bytes | None) -> bool:
    return any(
        (low is None or order(low) <= order(value)) and (high is None or order(value) <= order(high))
        for order in (bytes, in_javas_order)
    )


def _is_below(one: Any, other: Any, by_prefix: bool) -> bool:
    """Whether one value is smaller, as far as known: either may be truncated, with its last part incremented.

    The last byte is incremented, or the last character of a text, which may change all of its bytes.
    """
    if not by_prefix:
        return bool(one < other)
    length = max(min(len(one), len(other)) - 1, 0)
    return bool(one[:length] < other[:length])  # characters sort like their bytes


def _is_empty(file: DataFile, field_id: int) -> bool:
    """Whether a file is known to have only nulls in a column; then it has no bounds."""
    values, nulls = (file.value_counts or {}).get(field_id), (file.null_value_counts or {}).get(field_id)
    return values is not None and values == nulls


def _bound(bounds: dict[int, bytes] | None, field_id: int, kind: PrimitiveType) -> Any:
    """A decoded bound; those written before a type was promoted are shorter."""
    from pyiceberg.conversions import from_bytes
    from pyiceberg.types import DoubleType, FloatType, IntegerType, LongType

    encoded = (bounds or {}).get(field_id)
    if encoded is None:
        return None
    if isinstance(kind, LongType) and len(encoded) == 4:
        kind = IntegerType()
    elif isinstance(kind, DoubleType) and len(encoded) == 4:
        kind = FloatType()
    try:
        return from_bytes(kind, encoded)
    except (ValueError, ArithmeticError):  # truncated within a character
        return None


def in_javas_order(uuid: bytes) -> bytes:
    """A UUID's bytes transformed so that they sort as Java sorts UUIDs: as two signed numbers."""
    return bytes([uuid[0] ^ 0x80, *uuid[1:8], uuid[8] ^ 0x80, *uuid[9:]])
