"""What a rewrite task receives and reports: plain values that are quick to import.

A group of data files goes in, new Parquet files come out. The work is done in `task.py` and the modules it imports. All
of them are sent to Spark's executors by value, where Lakewarden is not installed: they import only pyarrow, the
standard library and each other. Callers form the groups and publish the new files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Literal

MIB = 1 << 20

Verify = Literal["counts", "full"]
Kind = Literal[
    "missing",  # a file does not exist
    "unreadable",  # a file is corrupt, truncated or unavailable
    "rows",  # a file's row count differs from the table's metadata
    "no-field-ids",  # a file without field ids
    "schema",  # a file that cannot be read with the target's schema
    "unwritable",  # an output cannot be written
    "checksum",  # an output differs when read back
    "storage",  # a location that the task cannot access
    "memory",
    "defect",
]


@dataclass(frozen=True)
class Input:
    path: str  # as in Iceberg's metadata
    rows: int  # from the table's metadata, including masked rows
    deletes: tuple[str, ...] = ()  # position delete files, which may also apply to other files


@dataclass(frozen=True)
class Drop:
    """Drop the rows in which a column holds one of these values. Nulls never match."""

    field_id: int
    values: bytes  # an Arrow IPC stream of one column; see task.pack


@dataclass(frozen=True)
class Group:
    """The work of one task."""

    number: int
    inputs: tuple[Input, ...]
    folder: str  # for the outputs
    drops: tuple[Drop, ...] = ()  # a row is dropped if any of them matches


@dataclass(frozen=True)
class Bloom:
    """A Bloom filter on one column."""

    column: str  # its path in the outputs, parts joined by dots
    false_positives: float = 0.01
    distinct: int | None = None  # None: one per row
    max_bytes: int = MIB


@dataclass(frozen=True)
class Layout:
    """How output files are written."""

    # The target's Arrow schema as an IPC message, each field with its PARQUET:field_id.
    # None: every input keeps its own schema and becomes one output, however large.
    schema: bytes | None
    target_bytes: int = 512 * MIB  # the size at which the next file begins
    row_group_bytes: int = 128 * MIB
    page_bytes: int = MIB
    dictionary_bytes: int = 2 * MIB
    codec: str = "zstd"  # as table properties spell it
    level: int | None = None  # None: 1 for zstd, else the codec's default
    delta_encoding: bool = False  # smaller, but vectorized readers before Iceberg 1.10 fail on it
    bloom: tuple[Bloom, ...] = ()
    verify: Verify = "counts"
    fingerprint: bool = False  # whether to report the SHA-256 of all inputs and outputs
    memory_bytes: int = 512 * MIB  # of the task's whole process
    moved: tuple[tuple[int, int], ...] = ()  # columns of the schema, and the field ids that files have them under
    constants: tuple[tuple[int, str], ...] = ()  # columns that get one text in all rows


@dataclass(frozen=True)
class Access:
    """Credentials for object storage. Local files need none."""

    endpoint: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    path_style: bool = True


@dataclass(frozen=True)
class Output:
    path: str
    rows: int
    bytes: int
    row_groups: int
    source: str | None = None  # its input, if inputs keep their schemas
    nulls: dict[int, int] = field(default_factory=dict)  # of each flat top-level column, by field id
    nans: dict[int, int] = field(default_factory=dict)  # of each floating point column, also within structs


@dataclass(frozen=True)
class Failure:
    """Why a group was not rewritten. Its output files were deleted, as far as storage allowed."""

    kind: Kind
    message: str
    file: str


@dataclass(frozen=True)
class GroupReport:
    """The result of one group."""

    number: int
    outputs: tuple[Output, ...] = ()
    rows_in: int = 0  # including masked and dropped rows
    rows_masked: int = 0  # by position deletes
    rows_dropped: int = 0  # by the group's drops, of those not masked
    rows_out: int = 0
    nulls: dict[int, int] = field(default_factory=dict)  # in all rows written
    checksum_in: str | None = None  # of the rows passed to the writer, with verify="full"
    checksum_out: str | None = None  # of the same rows, read back
    dropped: dict[str, list[int]] = field(default_factory=dict)  # positions of dropped rows by input path
    fingerprints: dict[str, str] = field(default_factory=dict)  # the SHA-256 of inputs and outputs, if requested
    failure: Failure | None = None
    seconds: float = 0.0
    peak_bytes: int = 0  # the highest memory use of the task's process

    def to_json(self) -> str:
        outputs = [vars(output) for output in self.outputs]
        failure = vars(self.failure) if self.failure else None
        return json.dumps({**vars(self), "outputs": outputs, "failure": failure})

    @classmethod
    def from_json(cls, text: str) -> GroupReport:
        given: dict[str, Any] = json.loads(text)
        given["nulls"] = _by_field_id(given["nulls"])
        for output in given["outputs"]:
            output |= {counts: _by_field_id(output[counts]) for counts in ("nulls", "nans")}
        given["outputs"] = tuple(Output(**output) for output in given["outputs"])
        given["failure"] = Failure(**given["failure"]) if given["failure"] else None
        return cls(**given)


def _by_field_id(counts: dict[str, int]) -> dict[int, int]:
    """Restore integer keys, which JSON turned into text."""
    return {int(field_id): count for field_id, count in counts.items()}


class RewriteFault(Exception):
    """Stops a rewrite. The task reports it as a failure."""

    def __init__(self, kind: Kind, message: str, file: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.file = file


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
