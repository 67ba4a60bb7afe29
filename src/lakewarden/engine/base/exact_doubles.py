"""PyIceberg 0.12's fast Avro decoder reads doubles in single precision: 0.1 becomes 0.10000000149011612.

This affects partition values: a rewritten manifest would keep the wrong ones. Spark then shows them as the column's
values, and no longer applies the deletes of that partition.
"""

from __future__ import annotations

import struct
from typing import Any

_EXACT = 0.1
_DOUBLE = struct.Struct("<d")


def read_doubles_exactly() -> None:
    """Patch PyIceberg to read doubles exactly, unless its decoder does so already."""
    from pyiceberg.avro.decoder import new_decoder
    from pyiceberg.avro.reader import DoubleReader

    if new_decoder(_DOUBLE.pack(_EXACT)).read_double() != _EXACT:
        DoubleReader.read = _read  # type: ignore[method-assign, assignment]


def _read(_: Any, decoder: Any) -> float:
    return float(_DOUBLE.unpack(decoder.read(_DOUBLE.size))[0])
