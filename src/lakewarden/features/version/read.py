"""`version read`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from lakewarden.features.shared.row_files import ROW_FILES, write_rows
from lakewarden.features.shared.summary import live_rows
from lakewarden.features.viewset.reading import selection
from lakewarden.lifecycle.request import Noted, Question, Version
from lakewarden.lifecycle.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.lifecycle.ground import Reader

_SHOWN = 20
_MOST_ROWS = 2**31 - 1  # no reader takes a larger limit
_MOST_BYTES_TO_COUNT = 512 << 20  # files that are read only to count their rows


class Read(Question[Rows]):
    """Read rows of any version of a table.

    The command line and REST return the first 20 rows unless --limit is given, and the total count; Python returns all
    rows. With --out all rows are written to a file. Of a view set, only one instance is read, with the current schema.
    """

    nothing = "No rows."

    version: Version
    where: str = Field("", description="Only rows that match this filter, as in: amount > 10 AND city = 'Bern'.")
    columns: list[str] = Field([], description="Only these columns, separated by commas.")
    limit: int | None = Field(None, ge=0, description="At most this many rows; 20 by default if they are printed.")
    out: Path | None = Field(None, description="Write the rows to this .parquet or .csv file.")
    instance: str = Field("global", description="Of a view set: the rows of this instance.")
    raw: bool = Field(
        False, description="Include rows that are hidden by erasure requests. The journal records who read them."
    )

    @field_validator("columns", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = [given]
        return [name.strip() for part in given for name in str(part).split(",") if name.strip()]

    @field_validator("out")
    @classmethod
    def _writable(cls, out: Path | None) -> Path | None:
        if out is not None and out.suffix.lower() not in ROW_FILES:
            raise ValueError(f"the file must end in {' or '.join(ROW_FILES)}")
        return out

    def to_show(self) -> Read:
        return self.model_copy(update={"limit": _SHOWN}) if self.limit is None and self.out is None else self

    def noted(self, lake: Reader) -> Noted | None:
        """A read of hidden rows; without the filter, which may hold a value."""
        if not self.raw:
            return None
        version = lake.tables.resolve(self.version)
        name, snapshot = str(version.name), str(version.snapshot.snapshot_id)
        says = f"read {name} at snapshot {snapshot} with the rows that erasure requests hide"
        return Noted(name, says, self.model_dump_json(include={"version", "raw"}), {"snapshot": snapshot})

    def ask(self, lake: Reader) -> Rows:
        version = lake.tables.resolve(self.version)
        seen = selection(lake, version, self.instance)
        only = seen.only if seen is not None else None
        columns = self.columns or (seen.columns if seen is not None else ())
        one_more = self.limit + 1 if self.limit is not None and self.limit < _MOST_ROWS else None
        schema, found = lake.rows.batches(version, self.where, columns, one_more, self.raw, only)
        batches = _Cut(found, self.limit)
        if self.out is None:
            rows = [row for batch in batches for row in batch.to_pylist()]
            count = len(rows)
        else:
            rows, count = [], write_rows(self.out, schema, batches)
        total: int | None = count
        if batches.more:
            known = live_rows(version.snapshot)
            total = lake.rows.count(version, self.where, self.raw, known, _MOST_BYTES_TO_COUNT, only)
        out = None if self.out is None else str(self.out)
        return Rows(count, total, batches.more, out, rows, seen.left_out if seen is not None else "")


class _Cut:
    """Batches up to a number of rows; `more` is set if there were more."""

    def __init__(self, batches: Iterable[pa.RecordBatch], limit: int | None) -> None:
        self._batches = batches
        self._left = limit
        self.more = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._batches:
            if self._left is None:
                yield batch
                continue
            self.more = self.more or batch.num_rows > self._left
            if self._left:
                yield batch.slice(0, self._left)
            self._left = max(self._left - batch.num_rows, 0)
