"""Whose files are whose: names of what an action writes begin with its operation's and its own id.

So what a killed run left behind can be told from everything else, and is removed by the run that takes it up.
Files of metadata must be named as Iceberg names them, version and uuid: there the first half of the uuid tells.
"""

from __future__ import annotations

import hashlib
import re
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakewarden.engine.base.locations import file_name, same_place

if TYPE_CHECKING:
    from lakewarden.lifecycle.basics import Stamp

_METADATA_NAME = re.compile(r"(?P<version>\d+)-(?P<uuid>[0-9a-f-]{36})(?P<rest>.*\.metadata\.json)")


class _Naming(threading.local):
    stamp: Stamp | None = None


_current = _Naming()


@contextmanager
def naming(stamp: Stamp) -> Iterator[None]:
    """While this thread commits, metadata files that it writes bear the mark of an action."""
    _current.stamp = stamp
    try:
        yield
    finally:
        _current.stamp = None


def owned_name(location: str) -> str:
    """A metadata file's location with the mark of the action that is committing now, if any is."""
    if _current.stamp is None:
        return location
    folder, slash, name = location.rpartition("/")
    own = uuid.UUID(_mark(_current.stamp) + uuid.uuid4().hex[16:])
    return folder + slash + _METADATA_NAME.sub(rf"\g<version>-{own}\g<rest>", name)


def is_owned(location: str, stamp: Stamp) -> bool:
    """Whether a file was written by this very action."""
    name = file_name(location)
    metadata = _METADATA_NAME.fullmatch(name)
    if metadata:
        return metadata["uuid"].replace("-", "").startswith(_mark(stamp))
    return stamp.file_prefix in same_place(location)


def _mark(stamp: Stamp) -> str:
    return hashlib.sha256(stamp.file_prefix.encode()).hexdigest()[:16]
