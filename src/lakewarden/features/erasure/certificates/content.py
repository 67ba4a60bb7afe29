"""What a certificate of erasure says, as values.

It holds no value that was asked to be erased, only salted hashes. `from_evidence.py` puts it together, `seal.py` signs
it, and `page.py` is how it looks on paper.
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
    """What became of a request in one table: how many of its values were in a row of any version, and how many rows
    went. A row counts for every file that held it. What an earlier release did not record is null."""

    table: str
    values: int
    occurred: int | None
    rows_erased: int | None


@dataclass(frozen=True)
class ValueHash:
    """One value, or many of them together, in a form that does not tell them."""

    table: str
    column: str
    values: int
    sha256: str


@dataclass(frozen=True)
class Purged:
    """What one run erased from a table for this request; versions that expired are those of the whole run, which may
    have been for other requests too."""

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
    """A branch or tag: the snapshot it was at, the one it is at without the rows, and how many rows it lost."""

    table: str
    ref: str
    kind: str
    before: str
    after: str
    rows: int


@dataclass(frozen=True)
class FileRemoved:
    """A file that is gone."""

    table: str
    path: str
    kind: str
    bytes: Bytes
    sha256: str


@dataclass(frozen=True)
class FileWritten:
    """A file with the rows that stay, in the place of one that no version leads to any more."""

    table: str
    path: str
    bytes: Bytes
    sha256: str
    instead_of: str


@dataclass(frozen=True)
class Proved:
    """What looking through everything that is stored of a table came to.

    The result is clean, traces (in so many places, or objects that could not be read), or gone: of a table that is in
    the catalog no more nothing is looked through.
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
    """That rows of the values were found in a table again, after it was proved that there were none."""

    table: str
    operation: str
    at: datetime


@dataclass(frozen=True)
class KindRead:
    """How many objects of a kind the last proof of a table read."""

    table: str
    kind: str
    objects: int


@dataclass(frozen=True)
class HowProved:
    """A part of how the last proof of a table looked."""

    table: str
    step: str


@dataclass(frozen=True)
class RefProved:
    """A version of a table that was there at its last proof."""

    table: str
    ref: str
    snapshot: str


@dataclass(frozen=True)
class Attested(Shown):
    """That a request for erasure was carried out, how, how it was proved, and what is not said by that."""

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
    """What differences in spelling were ignored: case, trim, or both."""
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
