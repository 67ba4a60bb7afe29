"""What can be published: each change of a table's metadata as a value, with where things must be for it.

How it is published, and what happens when another writer is quicker, is for `commit.py` and `spark_commit.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from lakewarden.lifecycle.plan import PUBLISH

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table

    from lakewarden.engine.draft import AddedFile

MAIN = "main"


@dataclass(frozen=True)
class SetRef:
    """A branch or tag that is to stand at a snapshot; a branch that exists keeps its own settings."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot: int
    keep_ms: int | None = None


@dataclass(frozen=True)
class SetSchema:
    """An earlier schema that is to be the current one, and the schema, partition spec and sort order it must meet."""

    to: int
    expects: int
    spec: int
    order: int


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
    schema: SetSchema | None = None
    """Only through the commit layer: Iceberg has no statement for it."""


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
    metadata_files: tuple[str, ...] = ()
    """Earlier metadata files that will be deleted: their entries leave the metadata log."""


@dataclass(frozen=True)
class ShortenedLog:
    """Metadata files that are to be deleted: no entry of the metadata log may reference them any more."""

    table: str
    uuid: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class ManifestMerge:
    """Bundles of manifests of data files, each of which is to become one."""

    table: str
    uuid: str
    bundles: tuple[tuple[str, ...], ...]
    branch: str = MAIN


@dataclass(frozen=True)
class Replacement:
    """What takes the place of a file of which rows are erased: a file of the rest, or nothing where all went."""

    path: str
    file: DataFile | None = field(repr=False)
    dropped: Sequence[int] = field(default=(), repr=False)
    """The positions of the rows that went, in order; of data files only, whose position deletes must follow."""


@dataclass(frozen=True)
class Cleansing:
    """Files that are to be replaced in every version of a table at once; the versions that had them go."""

    table: str
    uuid: str
    replacements: Mapping[str, Replacement]
    obsolete: frozenset[str] = frozenset()
    """Files that are not replaced, for no ref leads to them: their versions go too. Refused once a ref does."""
    tainted: frozenset[int] = frozenset()
    """Versions that go for what their own metadata tells, such as summaries, whichever files they have."""
    tells: Callable[[str], bool] = field(default=lambda text: False, repr=False)
    """Whether a text holds what is to be forgotten: a key or value of a summary that does is not carried over."""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Cleansed:
    """What it came to: where each ref was and is, which versions went, which files nothing leads to any more."""

    refs: Mapping[str, tuple[int, int]]
    snapshots: tuple[int, ...]
    superseded: tuple[str, ...] = field(repr=False)
    delete_files_rewritten: int = 0
    manifests_rewritten: int = 0


@dataclass(frozen=True)
class Mask:
    """Files of position deletes that are to hide rows of a branch, and those whose rows they take over."""

    table: str
    uuid: str
    added: tuple[AddedFile, ...]
    inputs: Mapping[str, frozenset[str]]
    """The data files that are masked, each with the deletes it had when its positions were looked up."""
    branch: str = MAIN
    replaced: frozenset[str] = frozenset()
    """Files of deletes that leave the branch in the same commit, since the added ones name their rows too."""
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Unmask:
    """Files of deletes that are to leave every branch that has them, so that their rows are seen again.

    Where one names other rows too, which stay hidden, another file takes its place.
    """

    table: str
    uuid: str
    files: Mapping[str, AddedFile | None]
    facts: Mapping[str, str] = field(default_factory=dict)


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

    def shorten_log(self, change: ShortenedLog) -> int:
        """Drop entries of the metadata log; answers with how many the catalog keeps all the same."""
        ...

    def cleanse(self, change: Cleansing, about_to: Callable[[Sequence[str]], None]) -> Cleansed | None:
        """Replace files in every version at once, and let the versions that had them go; None where none has them.

        `about_to` is told right before each attempt which files nothing will lead to once it has landed.
        """
        ...

    def mask(self, change: Mask) -> int | None:
        """Add position deletes to a branch; answers with the new snapshot. Refused where an input was changed."""
        ...

    def unmask(self, change: Unmask) -> int:
        """Take deletes away wherever they are live; answers with how many branches had them."""
        ...
