"""What deleting and moving many files came to: as many as can be are done, and the others are told of."""

from __future__ import annotations

from dataclasses import dataclass

Failures = tuple[tuple[str, str], ...]
"""Where files are that it could not be done to, each with why."""


@dataclass(frozen=True)
class Removed:
    """What a deletion came to: bytes are those that the files had."""

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
    """Where files are after they were moved; one that was at its new place already counts as moved."""

    files: int = 0
    bytes: int = 0
    missing: tuple[str, ...] = ()
    failed: Failures = ()
