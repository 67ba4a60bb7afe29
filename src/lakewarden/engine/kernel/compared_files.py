"""Reads the files of a comparison: each once for both sides, with the rows that each side sees.

A row is visible on a side that has its file, unless that side's deletes mask it, an erasure request hides it, or the
filter leaves it out. Where both sides have a file and only their deletes differ, row groups in which they agree are
not read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakewarden.engine.kernel.compare_messages import SIDES, Compared, Part, Side
from lakewarden.engine.kernel.deletes import Droppings, Masks, Wanted, read_masks
from lakewarden.engine.kernel.memory import Budget
from lakewarden.engine.kernel.messages import Input, RewriteFault
from lakewarden.engine.kernel.reading import ParquetInput, Widths
from lakewarden.engine.kernel.schema import Projection, field_id, require_field_ids
from lakewarden.engine.kernel.storage import TaskStorage, fault
from lakewarden.engine.kernel.vectors import vector_positions

_ROW = "__row__"
_ROW_ID, _LAST_UPDATED = 2147483540, 2147483539  # field ids of row lineage in data files


@dataclass(frozen=True)
class Seen:
    """Some rows of a part, in the columns of the comparison."""

    part: Part
    start: int
    batch: Any
    visible: dict[Side, Any]
    """For each side, a numpy array with true for the rows it sees."""
    kept: Any = None
    """True for the rows that are neither hidden nor left out by the filter; None if that was not asked for."""

    @property
    def differing(self) -> Any:
        """The rows that only one side sees."""
        return np.flatnonzero(self.visible["from"] != self.visible["to"])


class ComparedFiles:
    """Reads parts of one comparison."""

    def __init__(self, compared: Compared) -> None:
        self._compared = compared
        self._storage = TaskStorage(compared.access)
        self._budget = Budget.within(compared.memory_bytes)
        self._widths = Widths()
        self.bytes_fetched = 0
        """About how much was read to fetch rows."""
        schemas = {side: pa.ipc.read_schema(pa.py_buffer(packed)) for side, packed in compared.schemas.items()}
        self._targets = {
            (side, purpose): pa.schema([schema.field(index) for index in compared.columns(purpose)])
            for side, schema in schemas.items()
            for purpose in ("compare", "profile", "count", "keys")
        }
        self._hidden = {side: [Wanted(drop) for drop in drops] for side, drops in compared.hidden.items()}

    def read(self, parts: Sequence[Part]) -> Iterator[Seen]:
        """All rows of the parts that one of the sides may see, batch by batch."""
        masks = self._masks(parts)
        for part in parts:
            try:
                yield from self._read_part(part, masks, None, is_filtered=True)
            except Exception as error:
                raise fault(error, part.path) from error

    def fetch(self, part: Part, positions: Any, is_filtered: bool = False) -> Iterator[tuple[Any, Any]]:
        """Rows of a part at these rising positions: each batch with the places of its rows in `positions`.

        With `is_filtered`, rows that are hidden or left out by the filter are not among them.
        """
        try:
            for seen in self._read_part(part, None, positions, is_filtered):
                first, last = np.searchsorted(positions, (seen.start, seen.start + seen.batch.num_rows))
                places = np.arange(first, last)
                if seen.kept is not None:
                    places = places[seen.kept[positions[first:last] - seen.start]]
                if len(places):
                    yield seen.batch.take(pa.array(positions[places] - seen.start)), places
        except Exception as error:
            raise fault(error, part.path) from error

    def lineage(self, parts: Sequence[Part]) -> Iterator[tuple[Part, Any, Any, Any, Any]]:
        """Rows of each part that only one side has: positions, whether it is `to`, row ids, last updates."""
        masks = self._masks(parts)
        for part in parts:
            try:
                unmasked = self._unmasked(part, masks)
                positions = np.flatnonzero(unmasked["from"] != unmasked["to"])
                if len(positions):
                    yield part, positions, unmasked["to"][positions], *self._lineage_at(part, positions)
            except Exception as error:
                raise fault(error, part.path) from error

    def _lineage_at(self, part: Part, positions: Any) -> tuple[Any, Any]:
        assert part.lineage is not None
        found = {
            _ROW_ID: positions.astype(np.int64) + part.lineage[0],
            _LAST_UPDATED: np.full(len(positions), part.lineage[1], dtype=np.int64),
        }
        with ParquetInput(self._storage, part.path, self._budget, self._widths) as file:
            _check_rows(part, file)
            columns = [place for place, field in enumerate(file.schema) if field_id(field) in found]
            for number, start in self._row_groups(part, file, {}, positions) if columns else ():
                at = start
                for batch in file.batches(columns, lambda: self._budget.batch, 0.0, [number]):
                    first, last = np.searchsorted(positions, (at, at + batch.num_rows))
                    rows = pa.array(positions[first:last] - at)
                    for place, column in zip(columns, batch.columns, strict=True):
                        own = column.take(rows).cast(pa.int64())
                        is_own = own.is_valid().to_numpy(zero_copy_only=False)
                        into = found[field_id(file.schema.field(place)) or 0][first:last]
                        into[is_own] = own.drop_null().to_numpy()
                    at += batch.num_rows
        return found[_ROW_ID], found[_LAST_UPDATED]

    def _masks(self, parts: Sequence[Part]) -> dict[Side, Masks]:
        return {
            side: read_masks(
                self._storage,
                [Input(part.path, part.rows, part.deletes[side]) for part in parts if side in part.deletes],
                vector_positions,
            )
            for side in SIDES
        }

    def _read_part(
        self, part: Part, masks: dict[Side, Masks] | None, positions: Any, is_filtered: bool
    ) -> Iterator[Seen]:
        side: Side = "to" if "to" in part.deletes else "from"
        with ParquetInput(self._storage, part.path, self._budget, self._widths) as file:
            _check_rows(part, file)
            require_field_ids(file.schema)
            target = self._targets[side, part.purpose]
            dropping = Droppings(self._hidden.get(side, []) if is_filtered else [])
            columns = sorted(Projection(file.schema, target).needed | dropping.needs(file.schema)) or [0]
            read = pa.schema([file.schema.field(index) for index in columns])
            dropping.look_at(read)
            projection = Projection(read, target)
            unmasked = self._unmasked(part, masks) if masks is not None else {}
            for number, start in self._row_groups(part, file, unmasked, positions):
                at = start
                for batch in file.batches(columns, lambda: self._budget.batch, projection.added_width, [number]):
                    shown = projection.apply(batch)
                    kept = self._kept(batch, shown, dropping) if is_filtered else None
                    visible = {name: rows[at : at + batch.num_rows] & kept for name, rows in unmasked.items()}
                    yield Seen(part, at, shown, visible, kept)
                    at += batch.num_rows
                    if part.most_rows is not None and at - start >= part.most_rows:
                        break

    def _unmasked(self, part: Part, masks: dict[Side, Masks]) -> dict[Side, Any]:
        """For each side, which rows of a part its deletes leave."""
        found: dict[Side, Any] = {}
        for side in SIDES:
            if side not in part.deletes:
                found[side] = np.zeros(part.rows, dtype=bool)
                continue
            masked = masks[side].masked(part.path, 0, part.rows) if part.rows else None
            shown = np.ones(part.rows, dtype=bool)
            found[side] = shown if masked is None else shown & ~masked.to_numpy(zero_copy_only=False)
        return found

    def _row_groups(
        self, part: Part, file: ParquetInput, unmasked: dict[Side, Any], positions: Any
    ) -> Iterable[tuple[int, int]]:
        """The row groups that are read, with the position of their first row."""
        rows = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
        starts = [int(start) for start in np.concatenate(([0], np.cumsum(rows)))]
        numbers: Iterable[int] = range(len(rows))
        if part.most_rows is not None:
            numbers = [zlib.crc32(part.path.encode()) % len(rows)] if rows else []
        elif positions is not None:
            numbers = [n for n in numbers if len(positions[slice(*np.searchsorted(positions, starts[n : n + 2]))])]
            self.bytes_fetched += part.bytes * sum(rows[number] for number in numbers) // max(part.rows, 1)
        elif part.purpose == "compare" and len(part.deletes) > 1:  # filters leave out the same rows of both sides
            differs = unmasked["from"] != unmasked["to"]
            numbers = [number for number in numbers if differs[starts[number] : starts[number + 1]].any()]
        return [(number, starts[number]) for number in numbers]

    def _kept(self, batch: Any, shown: Any, dropping: Droppings) -> Any:
        """Which rows no erasure request hides and the filter does not leave out."""
        keep = np.ones(batch.num_rows, dtype=bool)
        dropped = dropping.dropped(batch)
        if dropped is not None:
            keep &= ~dropped.fill_null(False).to_numpy(zero_copy_only=False)
        if self._compared.where is not None:
            numbered = pa.Table.from_batches([shown]).append_column(_ROW, pa.array(np.arange(batch.num_rows)))
            chosen = numbered.filter(self._compared.where).column(_ROW).to_numpy()
            matches = np.zeros(batch.num_rows, dtype=bool)
            matches[chosen] = True
            keep &= matches
        return keep


def _check_rows(part: Part, file: ParquetInput) -> None:
    if file.rows != part.rows:
        raise RewriteFault("rows", f"has {file.rows} rows, the table's metadata says {part.rows}", part.path)
