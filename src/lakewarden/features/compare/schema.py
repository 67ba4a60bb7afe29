"""`compare schema`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakewarden.display import Shown
from lakewarden.engine.rows.read import version_schema
from lakewarden.features.compare.layout import layout_of
from lakewarden.features.compare.rules import Number, Rule
from lakewarden.features.compare.versions import TwoVersions
from lakewarden.lifecycle.request import Question
from lakewarden.quantities import SnapshotId

if TYPE_CHECKING:
    from pyiceberg.schema import Schema as IcebergSchema
    from pyiceberg.types import IcebergType, NestedField

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader

Change = dict[str, str]
"""What something was, under `from`, and what it is, under `to`."""
_NAMES = ("breaking", "added", "removed", "type_changes", "renamed", "replaced")


@dataclass(frozen=True)
class SchemaComparison(Shown):
    """What differs between the schemas of two versions. Nested fields are named by dotted paths."""

    table: str
    from_version: str
    to_version: str
    from_snapshot_id: SnapshotId
    to_snapshot_id: SnapshotId
    breaking: list[str]
    """Every reason why a reader that finds columns by name would fail or see other values."""
    added_columns: list[str]
    removed_columns: list[str]
    common_columns: list[str]
    type_changes: dict[str, Change]
    renamed: dict[str, str]
    """Old names with the new ones, of columns that kept their field id."""
    replaced: list[str]
    """Columns of the same name that are another field: old values are not carried over."""
    nullability: dict[str, Change]
    moved: list[str]
    """Columns whose place among the common ones changed."""
    docs: dict[str, Change]
    partition_spec: Change = field(default_factory=dict)
    sort_order: Change = field(default_factory=dict)
    other: str | None = None
    failed: list[str] = field(default_factory=list)
    """The rules of `--fail-if` that are true."""

    def __rich__(self) -> str:
        head = f"{self.table}: {self.from_version} → {self.to_version}" + (f" of {self.other}" if self.other else "")
        lines = [*(f"FAILED: {rule}" for rule in self.failed), head]
        lines += [f"breaking: {reason}" for reason in self.breaking]
        lines += [f"added: {name}" for name in self.added_columns]
        lines += [f"removed: {name}" for name in self.removed_columns]
        lines += [f"type: {name} {change['from']} → {change['to']}" for name, change in self.type_changes.items()]
        lines += [f"renamed: {old} → {new}" for old, new in self.renamed.items()]
        lines += [f"replaced: {name} is another field now; old values are not carried over" for name in self.replaced]
        lines += [f"nulls: {name} {change['from']} → {change['to']}" for name, change in self.nullability.items()]
        lines += [f"moved: {name}" for name in self.moved]
        lines += [f"doc: {name} {change['from']!r} → {change['to']!r}" for name, change in self.docs.items()]
        for what, change in (("partition spec", self.partition_spec), ("sort order", self.sort_order)):
            lines += [f"{what}: {change['from']} → {change['to']}"] if change else []
        same = len(lines) == 1 + len(self.failed)
        return "\n".join([*lines, f"The schemas are the same: {len(self.common_columns)} columns."] if same else lines)


class Schema(TwoVersions, Question[SchemaComparison]):
    """Compare the schemas of two versions of a table.

    Columns are matched by name, as readers do; renamed and replaced columns are found by field id. Needs no Spark.
    Rules of --fail-if can use breaking, added, removed, type_changes, renamed and replaced: their counts.
    """

    def ask(self, lake: Reader) -> SchemaComparison:
        rules = [Rule.parse(text, _NAMES, ()) for text in self.fail_if]
        with lake.tables.at_one_moment():
            before, after = self.versions(lake)
        found = compared(before, after, by_name=self.by_name)
        values: Mapping[str, Number] = {
            "breaking": len(found.breaking),
            "added": len(found.added_columns),
            "removed": len(found.removed_columns),
            "type_changes": len(found.type_changes),
            "renamed": len(found.renamed),
            "replaced": len(found.replaced),
        }
        found.failed.extend(rule.text for rule in rules if rule.holds(values, {}))
        return found

    def found(self, answer: SchemaComparison) -> bool:
        return bool(answer.failed)


def compared(before: Resolved, after: Resolved, by_name: bool = False) -> SchemaComparison:
    """What differs between the schemas of two versions."""
    old_schema, new_schema = version_schema(before), version_schema(after)
    old, new = dict(_flat(old_schema)), dict(_flat(new_schema))
    old_layout, new_layout = layout_of(before, old_schema), layout_of(after, new_schema)
    common = [name for name in new if name in old]
    types = {
        name: {"from": _type(old[name]), "to": _type(new[name])}
        for name in common
        if _type(old[name]) != _type(new[name])
    }
    renamed = {} if by_name else _renamed(old, new)
    return SchemaComparison(
        table=str(before.name),
        other=str(after.name) if by_name else None,
        from_version=before.reference.ref or "main",
        to_version=after.reference.ref or "main",
        from_snapshot_id=before.snapshot.snapshot_id,
        to_snapshot_id=after.snapshot.snapshot_id,
        breaking=list(_breaking(old, new, renamed)),
        added_columns=[name for name in new if name not in old],
        removed_columns=[name for name in old if name not in new],
        common_columns=common,
        type_changes=types,
        renamed=renamed,
        replaced=[] if by_name else [name for name in common if old[name].field_id != new[name].field_id],
        nullability={
            name: {"from": _nulls(old[name]), "to": _nulls(new[name])}
            for name in common
            if old[name].required != new[name].required
        },
        moved=_moved([name for name in old if name in new], common),
        docs={
            name: {"from": old[name].doc or "", "to": new[name].doc or ""}
            for name in common
            if (old[name].doc or "") != (new[name].doc or "")
        },
        partition_spec=_change(old_layout.partitioned, new_layout.partitioned),
        sort_order=_change(old_layout.sorted, new_layout.sorted),
    )


def _flat(schema: IcebergSchema) -> Iterator[tuple[str, NestedField]]:
    """Every field by its path."""
    from pyiceberg.types import ListType, MapType, StructType

    def within(fields: Sequence[NestedField], above: str) -> Iterator[tuple[str, NestedField]]:
        for each in fields:
            path = above + each.name
            yield path, each
            yield from inside(each.field_type, f"{path}.")

    def inside(kind: IcebergType, above: str) -> Iterator[tuple[str, NestedField]]:
        if isinstance(kind, StructType):
            yield from within(kind.fields, above)
        elif isinstance(kind, ListType):
            yield from within([kind.element_field], above)
        elif isinstance(kind, MapType):
            yield from within([kind.key_field, kind.value_field], above)

    return within(schema.fields, "")


def _type(each: NestedField) -> str:
    """A field's type; of a nested one its kind only, since its fields are compared themselves."""
    from pyiceberg.types import ListType, MapType, StructType

    for kind, name in ((StructType, "struct"), (ListType, "list"), (MapType, "map")):
        if isinstance(each.field_type, kind):
            return name
    return str(each.field_type)


def _nulls(each: NestedField) -> str:
    return "required" if each.required else "optional"


def _renamed(old: Mapping[str, NestedField], new: Mapping[str, NestedField]) -> dict[str, str]:
    """Fields that kept their id under another name; not those that only moved along with what they are in."""
    by_id = {each.field_id: path for path, each in new.items()}
    found = {path: by_id[each.field_id] for path, each in old.items() if by_id.get(each.field_id, path) != path}
    return {path: to for path, to in found.items() if path.rpartition(".")[2] != to.rpartition(".")[2]}


def _breaking(
    old: Mapping[str, NestedField], new: Mapping[str, NestedField], renamed: Mapping[str, str]
) -> Iterator[str]:
    from pyiceberg.exceptions import ResolveError
    from pyiceberg.schema import promote
    from pyiceberg.types import PrimitiveType

    for name, before in old.items():
        after = new.get(name)
        if after is None:
            yield f"{name} was renamed to {renamed[name]}" if name in renamed else f"{name} was removed"
            continue
        one, other = before.field_type, after.field_type
        if isinstance(one, PrimitiveType) and isinstance(other, PrimitiveType) and one != other:
            try:
                promote(one, other)
            except ResolveError:
                yield f"{name} was {one} and is {other}"
        elif _type(before) != _type(after):
            yield f"{name} was {_type(before)} and is {_type(after)}"
        if before.required and not after.required:
            yield f"{name} may be NULL"


def _moved(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Names that are not in the longest run of names which kept their order."""
    place = {name: index for index, name in enumerate(old)}
    ends: list[int] = []  # of the shortest last element of a run of each length
    lasts: list[int] = []
    before: dict[int, int | None] = {}
    order = [place[name] for name in new]
    for value in order:
        at = bisect_left(ends, value)
        before[value] = lasts[at - 1] if at else None
        if at == len(ends):
            ends.append(value)
            lasts.append(value)
        else:
            ends[at] = lasts[at] = value
    kept: set[int] = set()
    step: int | None = lasts[-1] if lasts else None
    while step is not None:
        kept.add(step)
        step = before[step]
    return [name for name in new if place[name] not in kept]


def _change(before: str | None, after: str | None) -> Change:
    known = before is not None and after is not None and before != after
    return {"from": str(before), "to": str(after)} if known else {}
