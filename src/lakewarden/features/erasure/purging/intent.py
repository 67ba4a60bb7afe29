"""What a purge is about to do to a table, written down before it commits, and what it has come to afterwards.

A purge that was killed between its commit and the end leads a second run here: which files must still go, and what
the certificate is to tell of the first run. Paths are kept as they are, so an intent goes when the values go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakewarden.features.erasure.requests.action_requests import evidence
from lakewarden.features.orphan.judgement import kind_of
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.records.erasure import EvidenceKind


@dataclass(frozen=True)
class OldFile:
    """A file that is to go."""

    path: str
    kind: str
    bytes: int
    sha256: str = ""


@dataclass(frozen=True)
class OutsideFile:
    """A file that no version will lead to, but that stays: it lies outside of the table's location.

    It has so many rows that were to go; where none are known, it may still hold or tell of some.
    """

    path: str
    kind: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class NewFile:
    """A file with the rows that stay, and the one whose place it takes."""

    path: str
    bytes: int
    sha256: str
    instead_of: str


@dataclass(frozen=True)
class RefBefore:
    """A branch or tag, where it was, and how many rows it had that were to go: of all requests, and of each."""

    name: str
    kind: str
    before: int
    rows: int
    by_request: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Intent:
    """All of it; several attempts of one purge add to one."""

    files: Mapping[str, OldFile] = field(default_factory=dict)
    """The table's own: nothing else is ever deleted."""
    outside: Mapping[str, OutsideFile] = field(default_factory=dict)
    new_files: Mapping[str, NewFile] = field(default_factory=dict)
    refs: Mapping[str, RefBefore] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()
    """All that the table had."""
    dirty: frozenset[int] = frozenset()
    """Those of them with rows that were to go: where one is gone, rows may be."""
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    """Of each file that was written anew, how many rows went."""
    rows_expired: Mapping[str, int] = field(default_factory=dict)
    """The same of files that no branch or tag had, and that went with their versions."""
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How many of these rows were whose: by request and file."""
    occurred: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By request, the values that were in some row, each as the beginning of its keyed digest."""
    metadata_before: str = ""

    def joined(self, other: Intent) -> Intent:
        """Both together; where both tell of the same, what came first is what was before."""
        return Intent(
            files={**other.files, **{p: f for p, f in self.files.items() if f.sha256 or p not in other.files}},
            outside={**self.outside, **{p: f for p, f in other.outside.items() if f.rows or p not in self.outside}},
            new_files={**self.new_files, **other.new_files},
            refs={**other.refs, **self.refs},
            snapshots=self.snapshots | other.snapshots,
            dirty=self.dirty | other.dirty,
            rows_dropped={**self.rows_dropped, **other.rows_dropped},
            rows_expired={**self.rows_expired, **other.rows_expired},
            shares={
                id: {**self.shares.get(id, {}), **other.shares.get(id, {})} for id in {**self.shares, **other.shares}
            },
            occurred={
                id: self.occurred.get(id, frozenset()) | other.occurred.get(id, frozenset())
                for id in {**self.occurred, **other.occurred}
            },
            metadata_before=self.metadata_before or other.metadata_before,
        )

    def knows(self, path: str) -> bool:
        return path in self.files or path in self.outside

    def rows_of(self, path: str) -> dict[str, int]:
        """How many rows of which request a file had."""
        return {request: rows[path] for request, rows in self.shares.items() if path in rows}

    def with_files(
        self,
        paths: Iterable[str],
        is_own: Callable[[str], bool],
        sizes: Mapping[str, int | None],
        kinds: Mapping[str, str],
    ) -> Intent:
        """With files that nothing will lead to: the table's own go, and others stay."""
        files = [OldFile(p, kinds.get(p) or kind_of(p), sizes.get(p) or 0) for p in paths if not self.knows(p)]
        own = {file.path: file for file in files if is_own(file.path)}
        outside = {f.path: OutsideFile(f.path, f.kind, f.bytes, 0) for f in files if f.path not in own}
        return replace(self, files={**self.files, **own}, outside={**self.outside, **outside})

    def of_free(self, free: Collection[str], is_own: Callable[[str], bool]) -> Intent:
        """Only what nothing leads to now. An earlier version wrote down files outside as if they were the table's."""
        own = {path: file for path, file in self.files.items() if path in free and is_own(path)}
        once = {
            path: OutsideFile(path, file.kind, file.bytes, self.rows_dropped.get(path, 0))
            for path, file in self.files.items()
        }
        outside = {path: file for path, file in {**once, **self.outside}.items() if path in free and not is_own(path)}
        return replace(self, files=own, outside=outside)

    def document(self) -> dict[str, Any]:
        return {
            "files": [asdict(file) for file in self.files.values()],
            "outside": [asdict(file) for file in self.outside.values()],
            "new_files": [asdict(file) for file in self.new_files.values()],
            "refs": [asdict(ref) for ref in self.refs.values()],
            "snapshots": sorted(self.snapshots),
            "dirty": sorted(self.dirty),
            "rows_dropped": dict(self.rows_dropped),
            "rows_expired": dict(self.rows_expired),
            "shares": {id: dict(rows) for id, rows in self.shares.items()},
            "occurred": {id: sorted(values) for id, values in self.occurred.items()},
            "metadata_before": self.metadata_before,
        }

    @staticmethod
    def of(document: Mapping[str, Any]) -> Intent:
        return Intent(
            files={file["path"]: OldFile(**file) for file in document["files"]},
            outside={file["path"]: OutsideFile(**file) for file in document.get("outside", ())},  # once there was none
            new_files={file["path"]: NewFile(**file) for file in document["new_files"]},
            refs={ref["name"]: RefBefore(**ref) for ref in document["refs"]},
            snapshots=frozenset(document["snapshots"]),
            dirty=frozenset(document["dirty"]),
            rows_dropped=document["rows_dropped"],
            rows_expired=document.get("rows_expired", {}),  # these three an earlier version did not write down
            shares=document.get("shares", {}),
            occurred={id: frozenset(values) for id, values in document.get("occurred", {}).items()},
            metadata_before=document["metadata_before"],
        )


def intended(lake: Reader, action: Action, requests: Sequence[str]) -> Intent:
    """What this action, and earlier purges for the same requests that never came to their end, were about to do.

    Files that any purge of the table left outside are among it: rows of others may be in them too.
    """
    kinds = [EvidenceKind.INTENT, EvidenceKind.PURGED]
    told = lake.state.erasure.evidence(kinds, uuid=str(action.arguments["uuid"]))
    ended = {(each.operation, each.action) for each in told if each.kind is EvidenceKind.PURGED}
    left = [file for each in told if each.kind is EvidenceKind.PURGED for file in each.document.get("outside", ())]
    every = Intent(outside={f["path"]: OutsideFile(f["path"], f["kind"], f["bytes"], 0) for f in left})
    for each in told:
        if (each.operation, each.action) not in ended and set(requests) & set(each.requests):
            every = every.joined(Intent.of(each.document))
    return every


def write_down(lake: Writer, action: Action, requests: Sequence[str], intent: Intent) -> None:
    evidence(lake, action, EvidenceKind.INTENT, requests, intent.document())
