"""What can be published: each change of a table's metadata as a value, with where things must be for it.

How it is published, and what happens when another writer is quicker, is for `commit.py` and `spark_commit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from lakewarden.engine.draft import AddedFile
from lakewarden.lifecycle.plan import PUBLISH

if TYPE_CHECKING:
    from pyiceberg.table import Table

MAIN = "main"


@dataclass(frozen=True)
class SetRef:
    """A branch or tag that is to stand at a snapshot; a branch that exists keeps its own settings."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    keep_ms: int | None = None


@dataclass(frozen=True)
class RefChange:
    """What is to become of a table's refs, all at once, and where each of them must be for it."""

    table: str
    uuid: str
    expects: Mapping[str, int | None]
    set: tuple[SetRef, ...] = ()
    remove: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    drop_properties: tuple[str, ...] = ()
    route: str = PUBLISH


@dataclass(frozen=True)
class RewrittenGroup:
    """Data files, each with the deletes it was read with, and the files that now hold their rows."""

    number: int
    inputs: Mapping[str, frozenset[str]]
    added: tuple[AddedFile, ...]


@dataclass(frozen=True)
class Rewrite:
    """Rewritten groups of files that are to take the place of their inputs on a branch."""

    table: str
    uuid: str
    groups: tuple[RewrittenGroup, ...]
    branch: str = MAIN
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Rewritten:
    """What a rewrite came to: groups that were sent back are those whose inputs somebody changed meanwhile."""

    snapshot: int | None
    sent_back: tuple[int, ...]
    delete_files_removed: int = 0


@dataclass(frozen=True)
class Expiry:
    """Snapshots, and tags where they are, that are to go; whatever else points to one of them keeps all of them."""

    table: str
    uuid: str
    snapshots: tuple[int, ...]
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ManifestMerge:
    """Bundles of manifests of data files, each of which is to become one."""

    table: str
    uuid: str
    bundles: tuple[tuple[str, ...], ...]
    branch: str = MAIN


class Commits(Protocol):
    """What an action can publish with."""

    def refs(self, change: RefChange) -> None:
        """Change a table's branches, tags and properties."""
        ...

    def rewrite(self, change: Rewrite, discard: Callable[[RewrittenGroup], None]) -> Rewritten:
        """Put new files in the place of old ones; outputs of groups that are sent back are discarded before."""
        ...

    def merge_manifests(self, change: ManifestMerge) -> int | None:
        """Write each bundle of manifests as one; answers with the new snapshot, if there was anything to do."""
        ...

    def expire(self, change: Expiry, check: Callable[[Table], None]) -> None:
        """Let snapshots and tags go, all of them or none; `check` looks right before what else needs them."""
        ...
