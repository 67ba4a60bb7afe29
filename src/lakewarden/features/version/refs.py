"""Branches and tags of a table: what they are, and how one is planned, recognised and published.

Iceberg's refs carry no text, so a note is a table property, committed together with its ref.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from lakewarden.engine.commit import RefChange, SetRef
from lakewarden.errors import AlreadyExists, VersionNotFound, did_you_mean
from lakewarden.lifecycle.plan import Action, Outcome
from lakewarden.lifecycle.request import Positional
from lakewarden.lifecycle.requirement import RefAt, TableIs
from lakewarden.quantities import Duration, show_duration

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer

MAIN = "main"
_NOTE = "lakewarden.note."


def _nameable(name: str) -> str:
    if not name.strip() or name != name.strip():
        raise ValueError("a name cannot be empty, or begin or end with a space")
    if not name.isprintable():
        raise ValueError("a name cannot hold control characters")
    return name


def _whole_minutes(keep: timedelta) -> timedelta:
    if keep < timedelta(minutes=1) or keep % timedelta(minutes=1):
        raise ValueError("a keep period is counted in whole minutes, as in 90d, 12h or 30m")
    return keep


RefName = Annotated[str, Positional(), Field(max_length=255), AfterValidator(_nameable)]
Keep = Annotated[Duration, AfterValidator(_whole_minutes)]


@dataclass(frozen=True)
class Ref:
    """A branch or tag as it stands in a table's metadata."""

    name: str
    kind: Literal["branch", "tag"]
    snapshot_id: int
    keep: str = ""
    note: str = ""


def refs_of(table: Table) -> list[Ref]:
    """Branches first, then tags, by name."""
    notes = table.metadata.properties
    refs = [
        Ref(
            name=name,
            kind="branch" if str(ref.snapshot_ref_type) == "branch" else "tag",
            snapshot_id=ref.snapshot_id,
            keep=show_duration(timedelta(milliseconds=ref.max_ref_age_ms)) if ref.max_ref_age_ms else "",
            note=notes.get(note_property(name), ""),
        )
        for name, ref in table.metadata.refs.items()
    ]
    return sorted(refs, key=lambda ref: (ref.kind, ref.name))


def note_property(ref: str) -> str:
    return _NOTE + ref


def create_action(
    lake: Reader, version: Resolved, kind: Literal["branch", "tag"], name: str, keep: timedelta | None, note: str
) -> Action:
    """The action that makes a branch or tag of this name at this version."""
    table, snapshot = version.table, version.snapshot.snapshot_id
    existing = table.metadata.refs.get(name)
    if existing is not None:
        here = " (this very snapshot)" if existing.snapshot_id == snapshot else ""
        raise AlreadyExists(
            f"{version.name} already has a {existing.snapshot_ref_type} {name}, at {existing.snapshot_id}{here}",
            f"Choose another name, or remove it first: lakewarden version untag {version.name} {name} --apply",
        )
    route = lake.tables.route(table, version.name)
    uuid, target = str(table.metadata.table_uuid), str(version.name)
    kept = f", kept {show_duration(keep)}" if keep else ""
    return Action(
        verb=kind,
        table=target,
        says=f"{kind} {name} at {snapshot}{kept}",
        arguments={
            "ref": name,
            "kind": kind,
            "snapshot": snapshot,
            "keep_ms": int(keep.total_seconds() * 1000) if keep else None,
            "note": note or None,
            "uuid": uuid,
        },
        requires=(TableIs(target, uuid), RefAt(target, name, None)),
        expects=_made(kind),
        route=route.name,
        because=route.because,
    )


def created(action: Action, lake: Reader) -> bool:
    """Whether the branch or tag of an action stands where it should, with what belongs to it."""
    asked = action.arguments
    found = next((r for r in refs_of(lake.tables.load(action.table)) if r.name == asked["ref"]), None)
    keep = show_duration(timedelta(milliseconds=int(asked["keep_ms"]))) if asked["keep_ms"] else ""
    note = asked["note"] or ""
    return (
        found is not None
        and found == Ref(found.name, found.kind, _snapshot(action), keep, str(note))
        and (found.kind == asked["kind"])
    )


def create(action: Action, lake: Writer) -> Outcome:
    """Publish the branch or tag of an action."""
    asked = action.arguments
    name, note = str(asked["ref"]), asked["note"]
    kind: Literal["branch", "tag"] = "branch" if asked["kind"] == "branch" else "tag"
    keep = int(asked["keep_ms"]) if asked["keep_ms"] else None
    lake.commits.refs(
        RefChange(
            table=action.table,
            uuid=str(asked["uuid"]),
            expects={name: None},
            set=(SetRef(name, kind, _snapshot(action), keep),),
            properties={note_property(name): str(note)} if note else {},
            drop_properties=() if note else (note_property(name),),
        )
    )
    return Outcome(_made(kind))


def existing_tag(table: Table, target: str, name: str) -> Ref:
    """A tag that must be there."""
    refs = {ref.name: ref for ref in refs_of(table)}
    tags = [ref.name for ref in refs.values() if ref.kind == "tag"]
    if name in refs and refs[name].kind == "branch":
        raise VersionNotFound(f"{name} is a branch of {target}, not a tag", "A tag is asked for here.")
    if name not in refs:
        otherwise = f"It has {', '.join(tags[:8])}." if tags else "It has no tags."
        raise VersionNotFound(f"{target} has no tag {name!r}", did_you_mean(name, tags, otherwise))
    return refs[name]


def _made(kind: str) -> dict[str, int]:
    return {"tags" if kind == "tag" else "branches": 1}


def _snapshot(action: Action) -> int:
    return int(action.arguments["snapshot"] or 0)
