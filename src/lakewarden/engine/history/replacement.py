"""What to replace in all versions of a table, and the result; `replace_files.py` does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.commit.change import Change

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile


@dataclass(frozen=True)
class Replacement:
    """The replacement of a file without the erased rows; None if no rows are left."""

    path: str
    file: DataFile | None = field(repr=False)
    dropped: Sequence[int] = field(default=(), repr=False)
    """The positions of the erased rows, in order; for data files only, whose position deletes must follow."""


@dataclass(frozen=True)
class Cleansed:
    """The result: each ref's old and new snapshot, the expired snapshots, and files that are unreferenced now."""

    refs: Mapping[str, tuple[int, int]]
    snapshots: tuple[int, ...]
    superseded: tuple[str, ...] = field(repr=False)
    delete_files_rewritten: int = 0
    manifests_rewritten: int = 0


@dataclass(frozen=True)
class Cleansing(Change[Cleansed | None]):
    """Files to replace in all versions of a table; the snapshots that had them expire."""

    replacements: Mapping[str, Replacement]
    obsolete: frozenset[str] = frozenset()
    """Files without a replacement, because no ref reaches them: their snapshots expire too. Refused if a ref does."""
    tainted: frozenset[int] = frozenset()
    """Snapshots to expire because their own metadata, such as a summary, reveals a value."""
    reveals: Callable[[str], bool] = field(default=lambda text: False, repr=False)
    """Whether a text contains an erased value: such keys and values of a summary are not carried over."""
    facts: Mapping[str, str] = field(default_factory=dict)
    about_to: Callable[[Sequence[str]], None] = field(default=lambda files: None, repr=False)
    """Called before each attempt with the files that will be unreferenced after it."""
