"""`sequence record`: what goes wrong. `test_convert.py` uses what it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lakewarden.errors import StorageUnavailable, UnfitDatabase
from tests.features.sequence.history import create
from tests.services.mariadb import Shop


def test_what_cannot_be_recorded(shop: Shop, install: Any, tmp_path: Path) -> None:
    create(shop)
    shop.run("CREATE TABLE bare (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)")
    warden = install()
    with pytest.raises(StorageUnavailable, match="cannot be written"):
        warden.sequence.record(tmp_path / "nowhere" / "file")
    with pytest.raises(UnfitDatabase, match="has no rows"):
        warden.sequence.record(tmp_path / "file", table=["bare"])
