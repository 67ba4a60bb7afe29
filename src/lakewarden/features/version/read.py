"""`version read`."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from lakewarden.errors import BadValue, StorageUnavailable
from lakewarden.features.shared.summary import live_rows
from lakewarden.lifecycle.request import Question, Version
from lakewarden.lifecycle.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

    from lakewarden.lifecycle.ground import Reader

log = logging.getLogger(__name__)
_SHOWN = 20
_MOST_ROWS = 2**31 - 1  # no reader takes a larger limit
_MOST_BYTES_TO_COUNT = 512 << 20  # files that are read only to count their rows
_SECONDS_BETWEEN_LOGS = 3
_WRITERS = (".parquet", ".csv")


class Read(Question[Rows]):
    """Read rows of any version of a table.

    The command line and REST return the first 20 rows unless --limit is given, and the total count; Python returns all
    rows. With --out all rows are written to a file.
    """

    nothing = "No rows."

    version: Version
    where: str = Field("", description="Only rows that match this filter, as in: amount > 10 AND city = 'Bern'.")
    columns: list[str] = Field([], description="Only these columns, separated by commas.")
    limit: int | None = Field(None, ge=0, description="At most this many rows; 20 by default if they are printed.")
    out: Path | None = Field(None, description="Write the rows to this .parquet or .csv file.")
    raw: bool = Field(False, description="Include rows that are hidden by erasure requests.")

    @field_validator("columns", mode="before")
    @classmethod
    def _split(cls, given: Any) -> Any:
        if isinstance(given, str):
            given = [given]
        return [name.strip() for part in given for name in str(part).split(",") if name.strip()]

    @field_validator("out")
    @classmethod
    def _writable(cls, out: Path | None) -> Path | None:
        if out is not None and out.suffix.lower() not in _WRITERS:
            raise ValueError(f"the file must end in {' or '.join(_WRITERS)}")
        return out

    def to_show(self) -> Read:
        return self.model_copy(update={"limit": _SHOWN}) if self.limit is None and self.out is None else self

    def ask(self, lake: Reader) -> Rows:
        version = lake.tables.resolve(self.version)
        one_more = self.limit + 1 if self.limit is not None and self.limit < _MOST_ROWS else None
        schema, found = lake.rows.batches(version, self.where, self.columns, one_more, self.raw)
        batches = _Cut(found, self.limit)
        if self.out is None:
            rows = [row for batch in batches for row in batch.to_pylist()]
            count = len(rows)
        else:
            rows, count = [], _write(self.out, schema, batches)
        total: int | None = count
        if batches.more:
            known = live_rows(version.snapshot)
            total = lake.rows.count(version, self.where, self.raw, known, _MOST_BYTES_TO_COUNT)
        return Rows(count, total, batches.more, None if self.out is None else str(self.out), rows)


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


def _write(out: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Stream batches into a file that gets its name only when it is complete."""
    exists = BadValue(f"{out} already exists", "Choose another file, or remove it first.")
    if out.exists():
        raise exists
    part = out.with_name(f".{out.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as sink:
            written = _logged(out, _rows_into(sink, out.suffix.lower(), schema, batches))
        _publish(part, out)
        return written
    except FileExistsError:
        raise exists from None
    except OSError as error:
        raise StorageUnavailable(
            f"{out} cannot be written: {error.strerror or error}", "No partial file was left behind."
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _publish(part: Path, out: Path) -> None:
    """Give the complete file its name without overwriting a file that was created in the meantime."""
    try:
        out.hardlink_to(part)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: reserve the name first
        out.touch(exist_ok=False)
        part.replace(out)


def _logged(out: Path, counts: Iterable[int]) -> int:
    """The total; logged every few seconds while rows are written."""
    written, next_log = 0, time.monotonic() + _SECONDS_BETWEEN_LOGS
    for count in counts:
        written += count
        if time.monotonic() >= next_log:
            log.info("%s rows written to %s", f"{written:,}", out)
            next_log += _SECONDS_BETWEEN_LOGS
    return written


def _rows_into(sink: Any, suffix: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[int]:
    import pyarrow.csv
    import pyarrow.parquet

    if suffix == ".csv":
        unfit = [field.name for field in schema if _no_text(field.type)]
        if unfit:
            raise BadValue(f"CSV cannot hold the column {unfit[0]}", "Exclude it with --columns, or write .parquet.")
        writer: Any = pyarrow.csv.CSVWriter(sink, schema)
    else:
        writer = pyarrow.parquet.ParquetWriter(sink, schema, compression="zstd")
    with writer:
        for batch in batches:
            writer.write_batch(batch)
            yield batch.num_rows


def _no_text(kind: pa.DataType) -> bool:
    """Whether values of this type cannot be written as text; Arrow stores UUIDs as bytes."""
    import pyarrow
    from pyarrow import types

    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    return bool(types.is_nested(kind) or binary or isinstance(kind, pyarrow.BaseExtensionType))
