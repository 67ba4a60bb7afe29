"""Makes a Python worker of Spark ready for many tasks. Sent there by value: imports only the standard library."""

from __future__ import annotations

import re
import sys
import zipimport

_OWN = re.compile(r"/(pyspark\.zip|py4j-[^/]*\.zip|spark-core[^/]*\.jar)$")


def settle() -> None:
    """Have Python list Spark's own archives on its module path once in a worker.

    Spark has it look for new modules before each task, and to list the files of these archives again takes 0.1 s. What
    is in them does not change.
    """
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimport.zipimporter) and _OWN.search(finder.archive):
            finder.invalidate_caches = _nothing  # type: ignore[method-assign]


def _nothing() -> None:
    pass
