"""The content of a certificate of erasure. It holds no erased values, only salted hashes.

`from_evidence.py` creates it, `seal.py` signs it, and `page.py` renders it as HTML.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from lakewarden.display import Shown
from lakewarden.quantities import Bytes

FORMAT = "lakewarden certificate of erasure"
VERSION = 1


@dataclass(frozen=True)
class KeyErased:
    """A key column of a table."""

    table: str
    uuid: str
    column: str
    field_id: int
    type: str
    values: int


@dataclass(frozen=True)
class TableErased:
    """What was erased from one table: how many values occurred in any version, and how many rows were erased. A row
    counts for every file that held it. Null if it was not recorded."""

    table: str
    values: int
    occurred: int | None
    rows_erased: int | None


@dataclass(frozen=True)
class ValueHash:
    """The hash of one value, or of many together."""

    table: str
    column: str
    values: int
    sha256: str


@dataclass(frozen=True)
class Purged:
    """What one run erased from a table for this request. Expired versions are those of the whole run, which may have
    served other requests too."""

    table: str
    operation: str
    at: datetime
    other_requests: int
    rows: int
    files_rewritten: int
    refs_repointed: int
    snapshots_expired: int
    bytes_removed: Bytes
    route: str
    metadata_before: str
    metadata_after: str


@dataclass(frozen=True)
class RefMoved:
    """A branch or tag: its snapshots before and after, and how many rows were erased from it."""

    table: str
    ref: str
    kind: str
    before: str
    after: str
    rows: int


@dataclass(frozen=True)
class FileRemoved:
    """A deleted file."""

    table: str
    path: str
    kind: str
    bytes: Bytes
    sha256: str


@dataclass(frozen=True)
class FileWritten:
    """A file with the remaining rows, and the file that it replaces."""

    table: str
    path: str
    bytes: Bytes
    sha256: str
    instead_of: str


@dataclass(frozen=True)
class Proved:
    """The result of searching everything stored for a table.

    It is clean, traces (with the number of places, or of objects that could not be read), or gone: a table that is no
    longer in the catalog is not searched.
    """

    table: str
    operation: str
    at: datetime
    result: str
    places: int
    not_read: int
    objects: int
    bytes: Bytes
    snapshots: int
    metadata: str


@dataclass(frozen=True)
class CameBack:
    """Values that were found in a table again after a clean proof."""

    table: str
    operation: str
    at: datetime


@dataclass(frozen=True)
class KindRead:
    """How many objects of a kind the last proof of a table searched."""

    table: str
    kind: str
    objects: int


@dataclass(frozen=True)
class HowProved:
    """One step of the last proof of a table."""

    table: str
    step: str


@dataclass(frozen=True)
class RefProved:
    """A branch or tag of a table at its last proof."""

    table: str
    ref: str
    snapshot: str


@dataclass(frozen=True)
class Attested(Shown):
    """A certificate: what was requested, erased and proved, and what it does not cover."""

    format: str
    version: int
    request: str
    says: str
    issued_at: datetime
    state: str
    requester: str
    reason: str
    subject: str
    values: int
    ignoring: str
    """Ignored differences in spelling: case, trim, or both."""
    created_at: datetime
    grace_until: datetime
    deadline: datetime | None
    closed_at: datetime
    deadline_met: bool | None
    keys: list[KeyErased]
    tables: list[TableErased]
    value_hashes: list[ValueHash]
    hashing: str
    counts: dict[str, int]
    purges: list[Purged]
    refs: list[RefMoved]
    removed_files: list[FileRemoved]
    new_files: list[FileWritten]
    proofs: list[Proved]
    proved_refs: list[RefProved]
    objects_read: list[KindRead]
    came_back: list[CameBack]
    method: list[HowProved]
    not_covered: list[str]
    software: dict[str, str]
    public_key: str
    fingerprint: str
    signature: str = ""
