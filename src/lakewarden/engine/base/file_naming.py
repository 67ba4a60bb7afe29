"""Marks the files that an action writes: their names begin with the ids of the operation and the action.

This way a resumed run recognises and removes what a killed run left behind. Metadata files must follow Iceberg's
naming, version and UUID: there the first half of the UUID is the mark.
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
    """Mark the metadata files that this thread writes while it commits."""
    _current.stamp = stamp
    try:
        yield
    finally:
        _current.stamp = None


def owned_name(location: str) -> str:
    """A metadata file's location, marked with the action that commits at the moment, if any."""
    if _current.stamp is None:
        return location
    folder, slash, name = location.rpartition("/")
    own = uuid.UUID(_mark(_current.stamp) + uuid.uuid4().hex[16:])
    return folder + slash + _METADATA_NAME.sub(rf"\g<version>-{own}\g<rest>", name)


def is_owned(location: str, stamp: Stamp) -> bool:
    """Whether this action wrote a file."""
    name = file_name(location)
    metadata = _METADATA_NAME.fullmatch(name)
    if metadata:
        return metadata["uuid"].replace("-", "").startswith(_mark(stamp))
    return stamp.file_prefix in same_place(location)


def _mark(stamp: Stamp) -> str:
    return hashlib.sha256(stamp.file_prefix.encode()).hexdigest()[:16]
