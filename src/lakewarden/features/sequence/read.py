"""`sequence read`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from lakewarden.errors import BadValue
from lakewarden.features.sequence.everywhere import everywhere
from lakewarden.features.sequence.target import SequenceRequest
from lakewarden.features.shared.row_files import ROW_FILES, write_rows
from lakewarden.lifecycle.request import Question
from lakewarden.lifecycle.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from lakewarden.lifecycle.ground import Reader

_SHOWN = 20


class Read(SequenceRequest, Question[Rows]):
    """Read the rows of a database table wherever they are now: archived, detached or in the table.

    Each row is read once: archived rows first, then the others by id. The command line and REST return the first 20
    rows unless --limit is given; Python returns all rows. With --out all rows are written to a file. Rows that open
    erasure requests of the archive hide are left out, also those in the database.
    """

    nothing = "No rows."

    limit: int | None = Field(None, ge=0, description="At most this many rows; 20 by default if they are printed.")
    out: Path | None = Field(None, description="Write the rows to this .parquet or .csv file.")

    @field_validator("out")
    @classmethod
    def _writable(cls, out: Path | None) -> Path | None:
        if out is not None and out.suffix.lower() not in ROW_FILES:
            raise ValueError(f"the file must end in {' or '.join(ROW_FILES)}")
        return out

    def to_show(self) -> Read:
        return self.model_copy(update={"limit": _SHOWN}) if self.limit is None and self.out is None else self

    def ask(self, lake: Reader) -> Rows:
        sequences = self.sequences(lake.settings)
        names = self.chosen(sequences)
        if len(names) > 1:
            raise BadValue("more than one table is configured", f"Choose one: --table {' or --table '.join(names)}")
        with everywhere(lake, sequences, names[0]) as (schema, found):
            batches = _Limited(found, self.limit)
            if self.out is not None:
                count = write_rows(self.out, schema, batches)
                return Rows(count, None if batches.is_cut else count, batches.is_cut, str(self.out))
            rows = [row for batch in batches for row in batch.to_pylist()]
        return Rows(len(rows), None if batches.is_cut else len(rows), batches.is_cut, None, rows)


class _Limited:
    """Batches up to a number of rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
        self._batches, self._left = batches, limit
        self.is_cut = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._left is not None and batch.num_rows > self._left:
                self.is_cut = True
                yield batch.slice(0, self._left)
                return
            yield batch
            self._left = None if self._left is None else self._left - batch.num_rows
