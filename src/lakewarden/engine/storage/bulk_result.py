"""Results of deleting and moving many files: everything possible is done, failures are reported."""

from __future__ import annotations

from dataclasses import dataclass

Failures = tuple[tuple[str, str], ...]
"""Locations that failed, each with the reason."""


@dataclass(frozen=True)
class Removed:
    """The result of a deletion; bytes are the sizes of the deleted files."""

    files: int = 0
    bytes: int = 0
    missing: int = 0
    failed: Failures = ()

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            self.files + other.files,
            self.bytes + other.bytes,
            self.missing + other.missing,
            self.failed + other.failed,
        )


@dataclass(frozen=True)
class Moved:
    """The result of moving files; one that was at its destination already counts as moved."""

    files: int = 0
    bytes: int = 0
    missing: tuple[str, ...] = ()
    failed: Failures = ()
