"""Unreferenced objects in a table's folders that contain erased values.

These are orphans, quarantined files, versions of deleted objects, old metadata, and metadata of failed commits. A young
object may belong to a writer that has not committed yet, so it is left alone, except metadata that can no longer be
committed because it is based on an earlier state. Objects are searched as in a proof of erasure. Callers check again
before they delete.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import same_place
from lakewarden.engine.files.reachable import reachable_set
from lakewarden.engine.proof.object_reader import ObjectReader
from lakewarden.engine.proof.objects import Reached, StoredObject, folders, listed
from lakewarden.engine.proof.texts import Texts
from lakewarden.engine.proof.wanted import wanted_keys
from lakewarden.engine.storage.quarantine import OWN_FOLDER
from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.storage.storage import StoredFiles
    from lakewarden.records.erasure import HiddenKey

_THREADS = 8
_AT_A_TIME = 256
_METADATA = (".metadata.json", ".metadata.json.gz")


def unreferenced_copies(
    table: Table, keys: Sequence[HiddenKey], storage: StoredFiles, before: datetime, superseded: Iterable[str] = ()
) -> Iterator[StoredObject]:
    """Objects, and folders whose names contain a value, that may be erased.

    `superseded` are former metadata files of the table, besides those in its log.
    """
    wanted = wanted_keys(table.metadata, keys)
    reached = Reached(reachable_set(table))
    there = listed(table, storage)
    texts = Texts(table, wanted, there.bytes)
    reader = ObjectReader(table.metadata, wanted, texts, storage, lambda read: None)
    earlier = {same_place(entry.metadata_file) for entry in table.metadata.metadata_log}
    earlier |= {same_place(path) for path in superseded}

    def may_be_erased(found: StoredObject) -> bool:
        return bool(reader.look(found, reached).traces) and (
            _is_left_behind(found, before) or same_place(found.path) in earlier or _is_outdated(found, earlier, storage)
        )

    def candidates() -> Iterator[StoredObject]:
        with closing(there.again(table, storage)) as found:
            yield from (one for one in found if one.path not in reached.files or same_place(one.path) in earlier)
        yield from folders(table, storage)

    every = candidates()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="strays") as threads:
        while some := list(islice(every, _AT_A_TIME)):
            yield from (one for one, is_wanted in zip(some, threads.map(may_be_erased, some), strict=True) if is_wanted)


def _is_left_behind(found: StoredObject, before: datetime) -> bool:
    if not found.bytes or found.is_earlier or f"/{OWN_FOLDER}/" in found.path:
        return True
    return found.modified_at is not None and found.modified_at <= before


def _is_outdated(found: StoredObject, earlier: Collection[str], storage: StoredFiles) -> bool:
    """Whether it is metadata based on an earlier state: catalogs accept only successors of the current one."""
    if not found.path.endswith(_METADATA):
        return False
    try:
        content = storage.read(found.path)
        document = json.loads(gzip.decompress(content) if found.path.endswith(".gz") else content)
        log = document.get("metadata-log") or [{"metadata-file": ""}]
        follows = same_place(log[-1]["metadata-file"])
    except (LakewardenError, OSError, EOFError, ValueError, KeyError, AttributeError, TypeError):
        return False
    return follows in earlier
