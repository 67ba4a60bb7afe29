"""Functions that run on Spark's executors. Sent there by value: import only pyarrow and the standard library."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Iterator
from typing import Any


def introduce(batches: Iterable[Any]) -> Iterator[Any]:
    """Report the host, Python version and pyarrow version that a task runs with."""
    import pyarrow

    for _ in batches:
        row = {"host": [socket.gethostname()], "python": [platform.python_version()], "arrow": [pyarrow.__version__]}
        yield pyarrow.RecordBatch.from_pydict(row)


def as_messages(batches: Iterable[Any]) -> Iterator[Any]:
    """Encode each batch as one Arrow message, so that it reaches the driver unchanged."""
    import pyarrow

    for batch in batches:
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        yield pyarrow.RecordBatch.from_pydict({"message": [sink.getvalue().to_pybytes()]})


def refused(*_: Any) -> str:
    """In the place of a function that changes something."""
    raise RuntimeError(
        "this function changes something and does not run in a Spark session, where a task may run twice. "
        "Run it with: lakewarden query SQL, or warden.query(sql)"
    )


class RefusedRows:
    """The same in FROM."""

    def eval(self, *_: Any) -> Iterator[Any]:
        refused()
        yield from ()
