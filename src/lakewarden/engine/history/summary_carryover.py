"""What the summary of a new snapshot carries over from the one it replaces, and from that one's ancestors.

Streaming writers store their progress in summaries, and look for it from the head of a branch backwards: a writer that
does not find it repeats its last batch. A new snapshot has no parent, so its own summary must contain it. Counts,
partition names and Lakewarden's own properties described the old snapshot and are dropped. A summary has room for one
job of a kind: of several, the last writer's is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshot_removal import BACKFILL, SEQUENCE, STAMPS, marked_purged, without_revealing
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
_TOGETHER = (  # keys that belong together; the last one is the progress
    ("flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"),
    ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId"),
    ("source-snapshot-id",),
    (_PUBLISHED,),
)
_ALONE = ("kafka.connect.", *STAMPS)  # keys include the consumer, so each is independent
_GROUPED = frozenset(key for group in _TOGETHER for key in group)


class Summaries:
    """The summaries of a table's snapshots; each is read once, however many were built on it."""

    def __init__(
        self,
        versions: Iterable[Snapshot],
        over_gaps: Mapping[int, int],
        reveals: Callable[[str], bool],
        purged: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """`over_gaps` are ancestors of snapshots whose parents expired; texts that `reveals` accepts are left out.

        `purged` are the partitions of an archive that lose rows.
        """
        self._versions = {version.snapshot_id: version for version in versions}
        self._over_gaps, self._reveals, self._purged = over_gaps, reveals, purged
        self._how_far: dict[int, Mapping[str, str]] = {}

    def carried(self, version: Snapshot) -> dict[str, str]:
        """What the new snapshot carries over from this one."""
        own = {
            key: value
            for key, value in _notes(version).items()
            if not _OF_THE_OLD_ONE.fullmatch(key) and not _says_how_far(key)
        }
        both = {**own, **self._writers(version.snapshot_id)}
        stamps = {key: without_revealing(both[key], self._reveals) for key in both if key.startswith(BACKFILL)}
        stamps |= {key: marked_purged(both[key], self._purged) for key in both if key.startswith(SEQUENCE)}
        both |= stamps  # a writer that finds none would begin again
        return {key: value for key, value in both.items() if not self._reveals(key) and not self._reveals(value)}

    def _writers(self, version: int | None) -> Mapping[str, str]:
        """The progress of writers at a snapshot: what they would find, looking back from it."""
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
    """A snapshot's summary, in which a staged write that a ref reaches counts as published."""
    summary = notes_of(version)
    notes = {key: value for key, value in summary.items() if key != _STAGED}
    return {_PUBLISHED: summary[_STAGED], **notes} if _STAGED in summary else notes


def _says_how_far(key: str) -> bool:
    return key in _GROUPED or key.startswith(_ALONE)


def _further(before: Mapping[str, str], notes: Mapping[str, str]) -> Mapping[str, str]:
    """The progress of writers after a snapshot; the same object if it records none."""
    renewed = {key for group in _TOGETHER if group[-1] in notes for key in group}
    renewed.update(key for key in notes if key.startswith(_ALONE))
    if not renewed:
        return before
    kept = {key: value for key, value in before.items() if key not in renewed}
    return kept | {key: notes[key] for key in notes if key in renewed}
