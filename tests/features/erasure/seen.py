"""What an engine sees that knows nothing of Lakewarden: PyIceberg on the same catalog."""

from __future__ import annotations

import pyarrow as pa

from tests.features.erasure.people import SCHEMA, person
from tests.small_lake import SmallLake


def seen(lake: SmallLake, ref: str = "main", name: str = "crm.people") -> list[int]:
    """The ids of the rows that a branch or tag shows."""
    table = lake.catalog.load_table(name)
    return sorted(table.scan(snapshot_id=table.snapshot_by_name(ref).snapshot_id).to_arrow()["id"].to_pylist())


def append(lake: SmallLake, *people: int, name: str = "crm.people") -> None:
    """Add people, as an outside writer would."""
    lake.catalog.load_table(name).append(pa.Table.from_pylist([person(n) for n in people], schema=SCHEMA))
