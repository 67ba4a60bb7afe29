"""How the current schema of a view set reads rows that were written with a former one.

Values may be used as they are only if the current SQL would compute the same: from the same columns of the same source,
by the same expression, for the same rows. Where that cannot be known, `why_not` says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.engine.sql.outline import Outline, Value, outline
from lakewarden.features.shared.columns import promotes
from lakewarden.features.viewset.history import Former, ReadColumns

_UNKNOWN = "how its rows were computed is not recorded"


@dataclass(frozen=True)
class Transition:
    """What becomes of the columns of a former schema."""

    why_not: str = ""
    """Why its values cannot be used; empty if they can."""
    new: tuple[str, ...] = ()
    """Columns that its rows do not have: they are null."""
    dropped: tuple[str, ...] = ()
    promoted: tuple[str, ...] = ()
    moved: Mapping[int, int] = field(default_factory=dict)
    """Columns that are read by another field id now, with the id they are stored under: renamed, or added again."""

    @property
    def reads_as_it_is(self) -> bool:
        """Whether every reader of the current schema finds the values, without a change to the files."""
        return not self.why_not and not self.moved


def transition(former: Sequence[Former] | None, now: Former) -> Transition:
    """What becomes of rows that were written with any of some definitions."""
    if not former:
        return Transition(_UNKNOWN)
    found = [_between(one, now) for one in former]
    refused = next((one for one in found if one.why_not), None)
    if refused is not None:
        return refused
    return found[0] if all(one == found[0] for one in found) else Transition("its SQL changed while it was current")


def _between(then: Former, now: Former) -> Transition:
    why_not = _other_rows(then, now)
    before, after = (outline(one.definition.statement, list(one.columns)) for one in (then, now))
    if not why_not and (before is None or after is None):
        why_not = "its SQL cannot be compared column by column"
    if why_not or before is None or after is None:
        return Transition(why_not)
    if before.rows != after.rows:
        return Transition("the SQL selects other rows now")
    return _columns(then, now, before, after)


def _other_rows(then: Former, now: Former) -> str:
    """Why the rows may be others, whatever the SQL's columns."""
    was, new = then.definition, now.definition
    for key in ("source", "insert_time", "instances"):
        if getattr(was, key) != getattr(new, key):
            return f"its {key} changed"
    if was.schema_version != new.schema_version:
        return "its schema_version changed, which declares its rows to be others"
    for table, reads in now.reads.items():
        earlier = then.reads.get(table, ReadColumns(uuid=reads.uuid, ids={}))
        if earlier.uuid != reads.uuid:
            return f"{table} was recreated"
        other = [name for name, id in reads.ids.items() if earlier.ids.get(name, id) != id]
        if other:
            return f"{other[0]} is another column of {table} now"
    return ""


def _columns(then: Former, now: Former, before: Outline, after: Outline) -> Transition:
    new, promoted, moved, used = [], [], {}, set()
    for name, (id, kind) in now.columns.items():
        source = _source_of(name, kind, then, before, after)
        if source is None and name in then.columns:
            return Transition(f"the SQL computes {name} in another way now")
        if source is None:
            new.append(name)
            continue
        stored, was = then.columns[source]
        used.add(source)
        if stored != id and "<" in kind:
            return Transition(f"{name} is nested, and was dropped and added again")
        if name in now.inner and then.inner.get(source, now.inner[name]) != now.inner[name]:
            return Transition(f"fields of {name} were dropped and added again")
        if stored != id:
            moved[id] = stored
        elif was != kind:
            promoted.append(name)
    dropped = tuple(name for name in then.columns if name not in used)
    return Transition("", tuple(new), dropped, tuple(promoted), moved)


def _source_of(name: str, kind: str, then: Former, before: Outline, after: Outline) -> str | None:
    """The former column with the values of this one: the one with its name or, if there is none, a renamed one."""

    def fits(other: str) -> bool:
        was = then.columns[other][1]
        return _is_same(before.values[other.lower()], after.values[name.lower()], was, kind)

    if name in then.columns:
        return name if fits(name) else None
    return next((other for other in then.columns if fits(other)), None)


def _is_same(was: Value, now: Value, old: str, new: str) -> bool:
    if now.text == was.text:
        return old == new or promotes(old, new)
    return now.uncast == was.text and promotes(old, new)
