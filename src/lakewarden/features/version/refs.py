"""Branches and tags of a table: listing them, and planning, checking and publishing a new one.

Iceberg's refs have no description, so a note is a table property that is committed together with its ref. Iceberg
counts a ref's keep period from the commit of its snapshot. People mean from now, so the age of the snapshot is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from lakewarden.engine.catalog.snapshots import ancestors
from lakewarden.engine.commit.refs import RefChange, SetRef
from lakewarden.errors import AlreadyExists, VersionNotFound, did_you_mean
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.request import Positional
from lakewarden.lifecycle.requirement import RefAt, SnapshotKept, TableIs, table_lease
from lakewarden.quantities import Duration, SnapshotId, from_millis, show_duration, to_millis

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer

_NOTE = "lakewarden.note."
_MINUTE = timedelta(minutes=1)  # Spark takes keep periods in whole minutes
_DAY = timedelta(days=1)
_LATEST_MS = 253_402_300_799_999  # the end of the year 9999


def _nameable(name: str) -> str:
    if not name.strip() or name != name.strip():
        raise ValueError("a name cannot be empty, or begin or end with a space")
    if not name.isprintable():
        raise ValueError("a name cannot contain control characters")
    return name


def _whole_minutes(keep: timedelta) -> timedelta:
    if keep < timedelta(minutes=1) or keep % timedelta(minutes=1):
        raise ValueError("a keep period must be in whole minutes, as in 90d, 12h or 30m")
    return keep


RefName = Annotated[str, Positional(), Field(max_length=255), AfterValidator(_nameable)]
Keep = Annotated[Duration, AfterValidator(_whole_minutes)]


@dataclass(frozen=True)
class Ref:
    """A branch or tag in a table's metadata."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot_id: SnapshotId
    kept_until: datetime | None = None
    """When its keep period ends, by Iceberg's rule; none if it has none. A commit to a branch starts it again."""
    note: str = ""


def refs_of(table: Table) -> list[Ref]:
    """Branches first, then tags, by name."""
    notes = table.metadata.properties
    refs = [
        Ref(
            name=name,
            kind="branch" if str(ref.snapshot_ref_type) == "branch" else "tag",
            snapshot_id=ref.snapshot_id,
            kept_until=_end_of(table, ref.snapshot_id, ref.max_ref_age_ms),
            note=notes.get(note_property(name), ""),
        )
        for name, ref in table.metadata.refs.items()
    ]
    return sorted(refs, key=lambda ref: (ref.kind, ref.name))


def note_property(ref: str) -> str:
    return _NOTE + ref


def _end_of(table: Table, snapshot: int, age_ms: int | None) -> datetime | None:
    """When a ref at a snapshot ends that may reach this age; none if never, as the largest number means."""
    found = table.snapshot_by_id(snapshot)
    if found is None or age_ms is None or found.timestamp_ms + age_ms > _LATEST_MS:
        return None
    return from_millis(found.timestamp_ms + age_ms)


def _age_until(table: Table, snapshot: int, end: datetime) -> int:
    """The age in milliseconds that a ref at a snapshot may reach to end at a time, in whole minutes."""
    found = table.snapshot_by_id(snapshot)
    since = to_millis(end) - found.timestamp_ms if found is not None else 0
    minute = _MINUTE // timedelta(milliseconds=1)
    return max(-(-since // minute), 1) * minute


@dataclass(frozen=True)
class NewRef:
    """A branch or tag to create."""

    kind: Literal["branch", "tag"]
    name: str
    keep: timedelta | None = None
    note: str = ""

    def is_same(self, found: Ref, snapshot: int, table: Table, now: datetime, since: timedelta | None = None) -> bool:
        """Whether an existing ref is this one, with its settings; a branch may have been written to since.

        When a ref was created is not recorded: its keep period may have begun at any time between the commit of its
        version and now, or within the time `since`.
        """
        there = ancestors(table, found.snapshot_id) if self.kind == "branch" else (found.snapshot_id,)
        if (found.kind, found.note) != (self.kind, self.note) or snapshot not in there:
            return False
        end = _end_of(table, snapshot, table.metadata.refs[found.name].max_ref_age_ms)
        if self.keep is None or end is None:
            return self.keep is None and end is None
        earliest = now - since if since is not None else _end_of(table, snapshot, 0) or now
        return earliest <= end - self.keep <= now + _MINUTE and now < end


def create_actions(lake: Reader, version: Resolved, new: NewRef) -> tuple[Action, ...]:
    """Actions that create a branch or tag: one commit, or on Spark one statement each for ref and note."""
    table, snapshot, target = version.table, version.snapshot.snapshot_id, str(version.name)
    existing = table.metadata.refs.get(new.name)
    if existing is not None:
        here = " (the same snapshot)" if existing.snapshot_id == snapshot else ""
        removable = f", or remove it first: lakewarden version untag {target} {new.name} --apply"
        raise AlreadyExists(
            f"{target} already has a {existing.snapshot_ref_type} {new.name}, at {existing.snapshot_id}{here}",
            f"Choose another name{removable if str(existing.snapshot_ref_type) == 'tag' else '.'}",
        )
    route = lake.tables.route(table, version.name)
    uuid = str(table.metadata.table_uuid)
    kept = _says_kept(lake, table, snapshot, new) if new.keep else ""
    apart = route.needs_spark and bool(new.note)
    make = Action(
        verb=new.kind,
        subject=target,
        lease=table_lease(uuid),
        says=f"{new.kind} {new.name} at {snapshot}{kept}",
        arguments={
            "ref": new.name,
            "kind": new.kind,
            "snapshot": str(snapshot),
            "keep_ms": int(new.keep.total_seconds() * 1000) if new.keep else None,
            "note": "" if apart else new.note,
            "uuid": uuid,
        },
        requires=(TableIs(target, uuid), RefAt(target, new.name, None), SnapshotKept(target, snapshot)),
        expects={"tags" if new.kind == "tag" else "branches": 1},
        route=route.name,
        because=route.because,
    )
    annotate = replace(
        make,
        verb="note",
        says=f"note on {new.name}: {new.note}",
        arguments={"ref": new.name, "snapshot": str(snapshot), "note": new.note, "uuid": uuid},
        requires=(TableIs(target, uuid), RefAt(target, new.name, snapshot)),
        expects={"notes": 1},
    )
    return (make, annotate) if apart else (make,)


def _says_kept(lake: Reader, table: Table, snapshot: int, new: NewRef) -> str:
    assert new.keep is not None
    until = lake.clock() + new.keep
    kept = f", kept {show_duration(new.keep)}, until {until:%Y-%m-%d}"
    age = timedelta(milliseconds=_age_until(table, snapshot, until))
    if new.kind == "tag" or age - new.keep < _DAY:
        return kept
    return f"{kept}; each commit to it keeps it {age.days} days more, as Iceberg counts from the version's own commit"


def created(action: Action, lake: Reader) -> bool:
    """Whether the branch, tag or note of an action exists as planned."""
    asked, table = action.arguments, lake.tables.load(action.subject)
    found = next((ref for ref in refs_of(table) if ref.name == asked["ref"]), None)
    if found is None:
        return False
    if action.verb == "note":
        return found.note == asked["note"]
    new = _new_ref(action)
    if action.route == SPARK_SQL:  # the note is a separate action
        new = replace(new, note=found.note)
    return new.is_same(found, action.number("snapshot"), table, lake.clock())


def create(action: Action, lake: Writer) -> Outcome:
    asked, name, note = action.arguments, str(action.arguments["ref"]), str(action.arguments["note"])
    until: datetime | None = None
    noted = {note_property(name): note} if note else {}
    if action.verb == "note":
        change = RefChange(
            action.subject, str(asked["uuid"]), {name: action.number("snapshot")}, properties=noted, route=action.route
        )
    else:
        new, snapshot, age = _new_ref(action), action.number("snapshot"), None
        if new.keep:
            table = lake.tables.load(action.subject)
            age = _age_until(table, snapshot, lake.clock() + new.keep)
            until = _end_of(table, snapshot, age)
        change = RefChange(
            table=action.subject,
            uuid=str(asked["uuid"]),
            expects={name: None},
            set=(SetRef(name, new.kind, snapshot, age),),
            properties=noted,
            drop_properties=() if note else (note_property(name),),  # of an earlier ref with this name
            route=action.route,
        )
    lake.commits.publish(change)
    return Outcome({**action.expects, **({"kept_until": until.isoformat(timespec="seconds")} if until else {})})


def _new_ref(action: Action) -> NewRef:
    asked = action.arguments
    keep = timedelta(milliseconds=action.number("keep_ms")) if asked["keep_ms"] else None
    return NewRef("branch" if asked["kind"] == "branch" else "tag", str(asked["ref"]), keep, str(asked["note"]))


def existing_tag(table: Table, target: str, name: str) -> Ref:
    """The tag with this name; an error if there is none."""
    refs = {ref.name: ref for ref in refs_of(table)}
    tags = [ref.name for ref in refs.values() if ref.kind == "tag"]
    if name in refs and refs[name].kind == "branch":
        raise VersionNotFound(f"{name} is a branch of {target}, not a tag", "This command takes a tag.")
    if name not in refs:
        otherwise = f"It has {', '.join(tags[:8])}." if tags else "It has no tags."
        raise VersionNotFound(f"{target} has no tag {name!r}", did_you_mean(name, tags, otherwise))
    return refs[name]
