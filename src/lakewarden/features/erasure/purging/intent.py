"""What a purge is about to do to a table, recorded before it commits.

If a purge is killed after its commit, a second run reads here which files must still be deleted, and what the first run
did for the certificate. Paths are not redacted, so an intent is deleted together with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lakewarden.features.erasure.requests.action_requests import record_evidence
from lakewarden.features.orphan.judgement import kind_of
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.records.erasure import EvidenceKind


@dataclass(frozen=True)
class OldFile:
    """A file to delete."""

    path: str
    kind: str
    bytes: int
    sha256: str = ""


@dataclass(frozen=True)
class OutsideFile:
    """A file that becomes unreachable but is not deleted, because it lies outside of the table's location.

    `rows` is the number of its rows to erase; with 0, it may still hold or mention some.
    """

    path: str
    kind: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class NewFile:
    """A file with the remaining rows, and the file that it replaces."""

    path: str
    bytes: int
    sha256: str
    instead_of: str


@dataclass(frozen=True)
class RefBefore:
    """A branch or tag, its snapshot before the purge, and its rows to erase: in total and by request."""

    name: str
    kind: str
    before: int
    rows: int
    by_request: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Intent:
    """The whole intent; several attempts of one purge are joined."""

    files: Mapping[str, OldFile] = field(default_factory=dict)
    """Within the table's location: nothing else is ever deleted."""
    outside: Mapping[str, OutsideFile] = field(default_factory=dict)
    new_files: Mapping[str, NewFile] = field(default_factory=dict)
    refs: Mapping[str, RefBefore] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()
    """All snapshots of the table."""
    dirty: frozenset[int] = frozenset()
    """Snapshots with rows to erase: if one is expired, rows may be erased."""
    rows_dropped: Mapping[str, int] = field(default_factory=dict)
    """Erased rows by rewritten file."""
    rows_expired: Mapping[str, int] = field(default_factory=dict)
    """Erased rows by file that was on no branch or tag and expired with its versions."""
    shares: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Erased rows by request and file."""
    occurred: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The values of each request that occurred, as the beginnings of their keyed digests."""
    metadata_before: str = ""

    def joined(self, other: Intent) -> Intent:
        """Both together; if both have an entry, the earlier one has the state before the purge."""
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
        """The erased rows of a file by request."""
        return {request: rows[path] for request, rows in self.shares.items() if path in rows}

    def with_files(
        self,
        paths: Iterable[str],
        is_own: Callable[[str], bool],
        sizes: Mapping[str, int | None],
        kinds: Mapping[str, str],
    ) -> Intent:
        """With files that become unreachable: the table's own to be deleted, and others."""
        files = [OldFile(p, kinds.get(p) or kind_of(p), sizes.get(p) or 0) for p in paths if not self.knows(p)]
        own = {file.path: file for file in files if is_own(file.path)}
        outside = {f.path: OutsideFile(f.path, f.kind, f.bytes, 0) for f in files if f.path not in own}
        return replace(self, files={**self.files, **own}, outside={**self.outside, **outside})

    def of_free(self, free: Collection[str], is_own: Callable[[str], bool]) -> Intent:
        """Only the files that are unreachable now. A recorded file outside of the table's location is never deleted."""
        own = {path: file for path, file in self.files.items() if path in free and is_own(path)}
        recorded = {p: OutsideFile(p, f.kind, f.bytes, self.rows_dropped.get(p, 0)) for p, f in self.files.items()}
        outside = {p: file for p, file in {**recorded, **self.outside}.items() if p in free and not is_own(p)}
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
            outside={file["path"]: OutsideFile(**file) for file in document.get("outside", ())},
            new_files={file["path"]: NewFile(**file) for file in document["new_files"]},
            refs={ref["name"]: RefBefore(**ref) for ref in document["refs"]},
            snapshots=frozenset(document["snapshots"]),
            dirty=frozenset(document["dirty"]),
            rows_dropped=document["rows_dropped"],
            rows_expired=document["rows_expired"],
            shares=document["shares"],
            occurred={id: frozenset(values) for id, values in document["occurred"].items()},
            metadata_before=document["metadata_before"],
        )


def intended(lake: Reader, action: Action, requests: Sequence[str]) -> Intent:
    """The joined intents of this action and of unfinished purges for the same requests.

    Files that any purge of the table left outside are included: they may have rows of these requests too.
    """
    kinds = [EvidenceKind.INTENT, EvidenceKind.PURGED]
    evidence = lake.state.erasure.evidence(kinds, uuid=str(action.arguments["uuid"]))
    purges = [each for each in evidence if each.kind is EvidenceKind.PURGED]
    ended = {(each.operation, each.action) for each in purges}
    left = [file for each in purges for file in each.document.get("outside", ())]
    every = Intent(outside={f["path"]: OutsideFile(f["path"], f["kind"], f["bytes"], 0) for f in left})
    for each in evidence:
        if (each.operation, each.action) not in ended and set(requests) & set(each.requests):
            every = every.joined(Intent.of(each.document))
    return every


def write_down(lake: Writer, action: Action, requests: Sequence[str], intent: Intent) -> None:
    record_evidence(lake, action, EvidenceKind.INTENT, requests, intent.document())
