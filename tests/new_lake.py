"""A new embedded lake as `lake init` leaves it: set up once per process and copied, which takes a tenth of the time.

Each has its own signing key. Its control database is empty, and up to date.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.lake.init import Init
from lakewarden.state.database import Database

KEY, STATE = "signing-key.pem", "lakewarden.db"


def new_lake(folder: Path, has_state: bool = True) -> None:
    """Set up a lake in a folder, with or without an SQLite control database."""
    without = shutil.ignore_patterns(KEY, *([] if has_state else [f"{STATE}*"]))
    shutil.copytree(_template(), folder, ignore=without, dirs_exist_ok=True)
    signing_key.make(folder / KEY)


def new_state(file: Path) -> str:
    """The URL of an empty SQLite control database, in a file."""
    shutil.copy(_template() / STATE, file)
    return f"sqlite:///{file}"


@cache
def _template() -> Path:
    parent = tempfile.TemporaryDirectory(prefix="lakewarden-template-")
    atexit.register(parent.cleanup)
    folder = Path(parent.name) / "lake"
    Init(directory=folder).make()
    with closing(Database(f"sqlite:///{folder / STATE}")) as database, database.connect():
        pass
    return folder
