"""What runs on Spark's executors. Travels there by value: imports only pyarrow and the standard library."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Iterator
from typing import Any


def introduce(batches: Iterable[Any]) -> Iterator[Any]:
    """Say which host, Python and pyarrow a task runs on."""
    import pyarrow

    for _ in batches:
        row = {"host": [socket.gethostname()], "python": [platform.python_version()], "arrow": [pyarrow.__version__]}
        yield pyarrow.RecordBatch.from_pydict(row)


def as_messages(batches: Iterable[Any]) -> Iterator[Any]:
    """Each batch as one Arrow message, so that it reaches the driver as it is."""
    import pyarrow

    for batch in batches:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pyarrow.RecordBatch.from_pydict({"message": [sink.getvalue().to_pybytes()]})
