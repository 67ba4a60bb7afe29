"""A small lake with people in it, for the tests of erasure."""

from __future__ import annotations

import uuid
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import yaml

from lakewarden import Warden
from tests.small_lake import SmallLake

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("email", pa.string()),
        ("born", pa.date32()),
        ("number", pa.decimal128(9, 2)),
        ("code", pa.uuid()),
        ("user", pa.struct([("email", pa.string()), ("age", pa.int32())])),
    ]
)


def person(n: int) -> dict[str, Any]:
    return {
        "id": n,
        "email": None if n == 0 else f"p{n}@example.org",
        "born": date(2000, 1, n + 1),
        "number": Decimal(n) + Decimal("0.50"),
        "code": uuid.UUID(int=n),
        "user": None if n == 0 else {"email": f"u{n}@example.org", "age": n},
    }


def with_people(lake: SmallLake, name: str = "crm.people", rows: int = 6) -> SmallLake:
    lake.catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
    table = lake.catalog.create_table(name, SCHEMA)
    half = rows // 2
    table.append(pa.Table.from_pylist([person(n) for n in range(half)], schema=SCHEMA))
    table.append(pa.Table.from_pylist([person(n) for n in range(half, rows)], schema=SCHEMA))
    return lake


def ids(lake: SmallLake, version: str = "crm.people", **options: Any) -> list[int]:
    return sorted(row["id"] for row in lake.warden.version.read(version, limit=10**6, **options))


def configured(lake: SmallLake, **settings: Any) -> None:
    """Change the configuration, as a user would, and open the lake anew."""
    file = lake.folder / "lakewarden.yaml"
    file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | settings))
    lake.warden.close()
    lake.warden = Warden.open(lake.folder)
