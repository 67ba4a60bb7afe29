"""Batches on their way from one stage of a comparison to the next, sorted into buckets; large amounts wait on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from lakewarden.errors import StorageUnavailable

_IN_MEMORY = 32 << 20


class Exchange:
    """Takes batches from several threads, and gives them out bucket by bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[int, list[Any]] = {}
        self._bytes = 0
        self._writers: dict[int, Any] = {}
        self._closing = ExitStack()
        self._lock = Lock()
        self.rows = 0

    def put(self, bucket: int, batch: Any) -> None:
        with self._lock:
            self._held.setdefault(bucket, []).append(batch)
            self.rows += batch.num_rows
            self._bytes += batch.nbytes
            if self._bytes > _IN_MEMORY:
                self._spill()

    def buckets(self) -> list[int]:
        return sorted({*self._held, *self._writers})

    def take(self, bucket: int) -> Iterator[tuple[int, Any]]:
        """The batches of a bucket. Nothing may be put once one is taken."""
        with self._lock:
            self._closing.close()  # what was written is complete
        path = self._path(bucket)
        if path.exists():
            with pa.OSFile(str(path)) as source, pa.ipc.open_stream(source) as stream:
                yield from ((bucket, batch) for batch in stream)
            path.unlink()
        yield from ((bucket, batch) for batch in self._held.pop(bucket, []))

    def _spill(self) -> None:
        try:
            for bucket, batches in self._held.items():
                writer = self._writer(bucket, batches[0].schema)
                for batch in batches:
                    writer.write_batch(batch)
        except OSError as error:
            raise StorageUnavailable(
                f"the comparison needs disk space in {tempfile.gettempdir()}: {error.strerror or error}",
                "Free some space there, or set TMPDIR to a folder with more.",
            ) from error
        self._held, self._bytes = {}, 0

    def _writer(self, bucket: int, schema: Any) -> Any:
        if bucket not in self._writers:
            self._folder.mkdir(parents=True, exist_ok=True)
            sink = self._closing.enter_context(pa.OSFile(str(self._path(bucket)), "wb"))
            self._writers[bucket] = self._closing.enter_context(pa.ipc.new_stream(sink, schema))
        return self._writers[bucket]

    def _path(self, bucket: int) -> Path:
        return self._folder / f"{bucket:06d}.arrows"
