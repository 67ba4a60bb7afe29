"""Writes rows to a Parquet or CSV file, which appears under its name only when it is complete."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.errors import BadValue, StorageUnavailable

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)
_SECONDS_BETWEEN_LOGS = 3
ROW_FILES = (".parquet", ".csv")


def write_rows(out: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
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
