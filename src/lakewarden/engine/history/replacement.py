"""What is to be replaced in every version of a table at once, and what that came to; `replace_files.py` does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.engine.commit.change import Change

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile


@dataclass(frozen=True)
class Replacement:
    """What takes the place of a file of which rows are erased: a file of the rest, or nothing where all went."""

    path: str
    file: DataFile | None = field(repr=False)
    dropped: Sequence[int] = field(default=(), repr=False)
    """The positions of the rows that went, in order; of data files only, whose position deletes must follow."""


@dataclass(frozen=True)
class Cleansed:
    """What it came to: where each ref was and is, which versions went, which files nothing leads to any more."""

    refs: Mapping[str, tuple[int, int]]
    snapshots: tuple[int, ...]
    superseded: tuple[str, ...] = field(repr=False)
    delete_files_rewritten: int = 0
    manifests_rewritten: int = 0


@dataclass(frozen=True)
class Cleansing(Change[Cleansed | None]):
    """Files that are to be replaced in every version of a table at once; the versions that had them go."""

    replacements: Mapping[str, Replacement]
    obsolete: frozenset[str] = frozenset()
    """Files that are not replaced, for no ref leads to them: their versions go too. Refused once a ref does."""
    tainted: frozenset[int] = frozenset()
    """Versions that go for what their own metadata tells, such as summaries, whichever files they have."""
    tells: Callable[[str], bool] = field(default=lambda text: False, repr=False)
    """Whether a text holds what is to be forgotten: a key or value of a summary that does is not carried over."""
    facts: Mapping[str, str] = field(default_factory=dict)
    about_to: Callable[[Sequence[str]], None] = field(default=lambda files: None, repr=False)
    """Told right before each attempt which files nothing will lead to once it has landed."""
