"""What takes long and looks at readers is collected only if it is asked for, as `make soak` does."""

from __future__ import annotations

from pathlib import Path

import pytest

_ASKED_FOR = ("test_older_iceberg.py", "test_reader_matrix.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path.name in _ASKED_FOR and not config.getoption("--all-readers") else None
