"""Requirements of an action: checked right before it, and asserted again by its commit.

Each kind can describe how it was violated. Plans in the journal name requirements by `kind`; those of tables are here,
and a noun registers its own with `@requirement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Protocol, TypeVar

from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from lakewarden.errors import StateUnavailable
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.quantities import SnapshotId

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.storage.storage import StoredFiles


class Lake(Protocol):
    """What a requirement may read: the part of a `Reader` that knows no plans."""

    @property
    def settings(self) -> Settings: ...
    @property
    def tables(self) -> Tables: ...

    def storage(self, lake: str) -> StoredFiles: ...


class Requirement(Protocol):
    """One requirement: a frozen dataclass with values that JSON can represent."""

    @property
    def kind(self) -> str:
        """Its name in the journal."""
        ...

    @property
    def identifies(self) -> bool:
        """Whether it identifies the subject: then it must hold even if an action is done already."""
        ...

    def broken(self, lake: Lake, files: FileList) -> str | None:
        """What changed, as a sentence; None if it holds. `files` are the action's files, all loaded."""
        ...


Kind = TypeVar("Kind", bound=type[Requirement])
_kinds: dict[str, type[Requirement]] = {}


def requirement(declared: Kind) -> Kind:
    """Register a kind of requirement."""
    name = str(declared.kind)
    if name in _kinds:
        raise TypeError(f"two kinds of requirement are called {name}")
    _kinds[name] = declared
    return declared


@dataclass(frozen=True)
class Unread:
    """A requirement of a kind that was unknown when its plan was loaded: resolved once the operation is imported."""

    document: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return str(self.document["kind"])

    @property
    def identifies(self) -> bool:
        return self._read().identifies

    def broken(self, lake: Lake, files: FileList) -> str | None:
        return self._read().broken(lake, files)

    def _read(self) -> Requirement:
        if self.kind not in _kinds:
            raise StateUnavailable(
                f"the plan has a requirement of unknown kind: {self.kind}",
                "It was planned by another version of Lakewarden. Plan again.",
            )
        return _loaded(self.document)


def document(need: Requirement) -> dict[str, Any]:
    """A requirement as plans show and store it."""
    if isinstance(need, Unread):
        return dict(need.document)
    return {"kind": need.kind, **_adapter(type(need)).dump_python(need, mode="json")}


def _loaded(value: Any) -> Requirement:
    if not isinstance(value, Mapping):
        return value  # type: ignore[no-any-return]  # one already, as in a plan that was just made
    if "kind" not in value:
        raise ValueError("a requirement without a kind")
    found = _kinds.get(str(value["kind"]))
    if found is None:
        return Unread(dict(value))
    read: Requirement = _adapter(found).validate_python({name: each for name, each in value.items() if name != "kind"})
    return read


@cache
def _adapter(kind: type[Requirement]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


AnyRequirement = Annotated[Requirement, PlainValidator(_loaded), PlainSerializer(document)]
"""A requirement as a field of an action."""


def table_lease(uuid: str) -> str:
    """The lease for changes to a table: by its UUID, whatever its name."""
    return f"table:{uuid}"


@requirement
@dataclass(frozen=True)
class TableIs:
    """The table with this name is still the planned one, and was not recreated."""

    table: str
    uuid: str
    kind: ClassVar[str] = "table"
    identifies: ClassVar[bool] = True

    def broken(self, lake: Lake, files: FileList) -> str | None:
        found = lake.tables.uuid(self.table)
        if found is None:
            return f"{self.table} no longer exists"
        return (
            None if found == self.uuid else f"{self.table} was recreated: its UUID was {self.uuid} and is now {found}"
        )


@requirement
@dataclass(frozen=True)
class RefAt:
    """A branch or tag has not moved; `snapshot=None` means that it does not exist."""

    table: str
    ref: str
    snapshot: SnapshotId | None
    kind: ClassVar[str] = "ref"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        found = lake.tables.ref(self.table, self.ref)
        if found == self.snapshot:
            return None
        if self.snapshot is None:
            return f"ref {self.ref} of {self.table} did not exist and is now at {found}"
        if found is None:
            return f"ref {self.ref} of {self.table} was at {self.snapshot} and no longer exists"
        return f"ref {self.ref} of {self.table} moved from {self.snapshot} to {found}"


@requirement
@dataclass(frozen=True)
class LayoutIs:
    """A table's current schema, partition spec and sort order have not changed since planning."""

    table: str
    schema: int
    spec: int
    order: int
    kind: ClassVar[str] = "layout"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        metadata = lake.tables.load(self.table).metadata
        found = {
            "schema": (self.schema, metadata.current_schema_id),
            "partition spec": (self.spec, metadata.default_spec_id),
            "sort order": (self.order, metadata.default_sort_order_id),
        }
        changed = [f"{what} was {was} and is now {now}" for what, (was, now) in found.items() if was != now]
        return f"{self.table} changed: its {', its '.join(changed)}" if changed else None


@requirement
@dataclass(frozen=True)
class SnapshotKept:
    """A snapshot that the action reads still exists, wherever refs point."""

    table: str
    snapshot: SnapshotId
    kind: ClassVar[str] = "snapshot"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        if lake.tables.load(self.table).snapshot_by_id(self.snapshot) is not None:
            return None
        return f"snapshot {self.snapshot} of {self.table} no longer exists"
