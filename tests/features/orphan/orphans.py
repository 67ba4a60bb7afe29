"""Orphans for tests: files that nobody needs, put under a table's location with an age of their own."""

from __future__ import annotations

import os
import time
from pathlib import Path

from tests.engine.lakes import digest
from tests.small_lake import SmallLake

OLD = 10.0  # days


def folder(lake: SmallLake, name: str = "sales.orders") -> Path:
    location = lake.catalog.load_table(name).metadata.location
    return Path(location.removeprefix("file://").removeprefix("file:"))


def plant(lake: SmallLake, *names: str, days: float = OLD, table: str = "sales.orders", content: str = "stray") -> None:
    """Put files below a table's location, written so many days ago."""
    for name in names:
        path = folder(lake, table) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        age(path, days)


def age(path: Path, days: float) -> None:
    moment = time.time() - days * 86400
    os.utime(path, (moment, moment))


def age_all(lake: SmallLake, days: float = OLD, table: str = "sales.orders") -> None:
    """Make every file of a table old: what is kept is then kept for another reason than its age."""
    for path in folder(lake, table).rglob("*"):
        if path.is_file():
            age(path, days)


def contents(lake: SmallLake, table: str = "sales.orders") -> dict[str, str]:
    """What is stored at a table's place, byte by byte, besides the quarantine."""
    return {name: sum for name, sum in digest(folder(lake, table)).items() if not name.startswith("_lakewarden/")}


def set_property(lake: SmallLake, key: str, value: str, table: str = "sales.orders") -> None:
    with lake.catalog.load_table(table).transaction() as change:
        change.set_properties({key: value})
