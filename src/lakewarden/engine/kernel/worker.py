"""Makes a Python worker of Spark ready for many tasks. Sent there by value: imports only the standard library."""

from __future__ import annotations

import sys
import zipimport


def settle() -> None:
    """Have Python list the archives on its module path once in a worker.

    Spark has it look for new modules before each task, and to list the files of Spark's own archives again takes 0.1 s.
    What is in an archive does not change.
    """
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimport.zipimporter):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    pass
