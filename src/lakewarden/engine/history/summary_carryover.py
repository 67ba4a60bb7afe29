"""What the summary of a version that takes another's place carries over from that one, and from those before it.

Streaming writers note in summaries how far they are, and look for it from the head of a branch backwards: one that
does not find it writes its last batch a second time. A new version is built on nothing, so it must itself tell what
they would have found. Counts, names of partitions and Lakewarden's own notes were about the old version and stay
behind. A summary has room for one job of a kind: of several, the one that wrote last is told.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import notes_of

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot

_OF_THE_OLD_ONE = re.compile(
    r"(added|deleted|removed|total)-([a-z]+-)*(files|files-size|records|deletes|dvs)"
    r"|changed-partition-count|partition-summaries-included|partitions\..*|replace-partitions"
    r"|manifests-(created|kept|replaced)|entries-processed|lakewarden\..*",
    re.DOTALL,
)
_STAGED, _PUBLISHED = "wap.id", "published-wap-id"
_TOGETHER = (  # keys that mean something only together, with the one last that says how far
    ("flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"),
    ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId"),
    ("source-snapshot-id",),
    (_PUBLISHED,),
)
_ALONE = "kafka.connect."  # whose keys name their consumer, so that each stands for itself
_GROUPED = frozenset(key for group in _TOGETHER for key in group)


class Summaries:
    """The summaries of a table's versions; each is looked at once, however many versions were built on it."""

    def __init__(
        self, versions: Iterable[Snapshot], over_gaps: Mapping[int, int], tells: Callable[[str], bool]
    ) -> None:
        """`over_gaps` are the ancestors of versions whose parents expired; what `tells` a value is left out."""
        self._versions = {version.snapshot_id: version for version in versions}
        self._over_gaps, self._tells = over_gaps, tells
        self._how_far: dict[int, Mapping[str, str]] = {}

    def carried(self, version: Snapshot) -> dict[str, str]:
        """What the version that takes the place of this one tells of it."""
        own = {
            key: value
            for key, value in _notes(version).items()
            if not _OF_THE_OLD_ONE.fullmatch(key) and not _says_how_far(key)
        }
        both = {**own, **self._writers(version.snapshot_id)}
        return {key: value for key, value in both.items() if not self._tells(key) and not self._tells(value)}

    def _writers(self, version: int | None) -> Mapping[str, str]:
        """How far writers were at a version: what they would find, looking back from there."""
        unknown: dict[int, None] = {}
        while version in self._versions and version not in self._how_far and version not in unknown:
            unknown[version] = None
            parent = self._versions[version].parent_snapshot_id
            version = parent if parent in self._versions else self._over_gaps.get(version)
        found = self._how_far.get(version, {}) if version is not None else {}
        for later in reversed(unknown):
            found = self._how_far[later] = _further(found, _notes(self._versions[later]))
        return found


def _notes(version: Snapshot) -> dict[str, str]:
    """A version's summary. What a ref leads to waits no more to be published: it is told as what was."""
    told = notes_of(version)
    notes = {key: value for key, value in told.items() if key != _STAGED}
    return {_PUBLISHED: told[_STAGED], **notes} if _STAGED in told else notes


def _says_how_far(key: str) -> bool:
    return key in _GROUPED or key.startswith(_ALONE)


def _further(before: Mapping[str, str], notes: Mapping[str, str]) -> Mapping[str, str]:
    """How far writers are after a version; the very same where it says nothing of that."""
    renewed = {key for group in _TOGETHER if group[-1] in notes for key in group}
    renewed.update(key for key in notes if key.startswith(_ALONE))
    if not renewed:
        return before
    kept = {key: value for key, value in before.items() if key not in renewed}
    return kept | {key: notes[key] for key in notes if key in renewed}
