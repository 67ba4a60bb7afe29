"""Tables by their metadata, read by PyIceberg without a JVM, always current."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import TYPE_CHECKING, TypeVar

from lakewarden.config import Settings
from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.route import Route, route_for
from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.base.table_name import Reference, TableName, parse, parse_table, parse_time
from lakewarden.engine.catalog.catalogs import Catalogs
from lakewarden.engine.catalog.contents import has_view
from lakewarden.engine.catalog.snapshot_removal import lineage_of
from lakewarden.errors import BadReference, LakewardenError, NotFound, TableNotFound, VersionNotFound, did_you_mean
from lakewarden.quantities import from_millis, to_millis

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

Item = TypeVar("Item")
Result = TypeVar("Result")
_READERS = 16  # threads; they wait for storage, not for the CPU


@dataclass(frozen=True)
class Resolved:
    """A resolved reference: the table as it is now, and the snapshot."""

    reference: Reference
    table: Table
    snapshot: Snapshot

    @property
    def name(self) -> TableName:
        return self.reference.name


class _Moment(local):
    """The tables that a thread has loaded within `at_one_moment`."""

    seen: dict[TableName, Table] | None = None


class Tables:
    """Looks up tables by name. Nothing is kept between calls, so nothing is stale."""

    def __init__(self, catalogs: Catalogs, settings: Settings) -> None:
        self._catalogs = catalogs
        self._settings = settings
        self._moment = _Moment()

    def name(self, text: str | TableName) -> TableName:
        """Parse a table name, whether or not the table exists."""
        if isinstance(text, TableName):
            return text
        return parse_table(text, self._settings.lakes, self._settings.default_lake)

    def reference(self, text: str) -> Reference:
        return parse(text, self._settings.lakes, self._settings.default_lake)

    def names(self, lake: str | None = None, namespace: str | None = None) -> list[TableName]:
        """All tables of one lake or of all, sorted; only those in or below a namespace, if given."""
        lakes = [lake] if lake else list(self._settings.lakes)
        found = [name for each in lakes for name in self._names_of(each, tuple((namespace or "").split(".")))]
        if namespace and not found and not self._has_namespace(lakes, namespace):
            known = {".".join(n.namespace) for each in lakes for n in self._names_of(each, ("",))}
            hint = did_you_mean(namespace, known, f"There are: {', '.join(sorted(known)) or 'none'}.")
            raise NotFound(f"no namespace {namespace} in lake {', '.join(lakes)}", hint)
        return sorted(found, key=str)

    def load(self, name: str | TableName) -> Table:
        """A table's current metadata; within `at_one_moment`, as first loaded."""
        name = self.name(name)
        seen = self._moment.seen
        if seen is None:
            return self._load(name)
        if name not in seen:
            seen[name] = self._load(name)
        return seen[name]

    @contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Load each table once in this thread, for several checks that belong to one step."""
        before = self._moment.seen
        self._moment.seen = {}
        try:
            yield
        finally:
            self._moment.seen = before

    def catalog(self, name: TableName) -> Catalog:
        """The catalog that a table is in, or will be created in."""
        return self._catalogs.get(name.lake)

    def _load(self, name: TableName) -> Table:
        from pyiceberg.exceptions import NoSuchIcebergTableError, NoSuchNamespaceError, NoSuchTableError

        try:
            with translating(f"table {name}"):
                return self._catalogs.get(name.lake).load_table(name.identifier)
        except NoSuchIcebergTableError:
            raise TableNotFound(f"{name} is not an Iceberg table", "Lakewarden supports Iceberg tables only.") from None
        except (NoSuchTableError, NoSuchNamespaceError):
            raise self._not_found(name) from None

    def read_all(self, names: Iterable[Item], read: Callable[[Item], Result]) -> Iterator[Result]:
        """Apply a function to many tables in parallel; results are in order."""
        with ThreadPoolExecutor(_READERS, thread_name_prefix="tables") as readers:
            yield from readers.map(read, names)

    def uuid(self, name: str) -> str | None:
        """The UUID of the table with this name; None if there is none."""
        try:
            return str(self.load(name).metadata.table_uuid)
        except TableNotFound:
            return None

    def ref(self, name: str, ref: str) -> int | None:
        """The snapshot that a branch or tag points to; None if it does not exist."""
        found = self.load(name).metadata.refs.get(ref)
        return found.snapshot_id if found else None

    def route(self, table: Table, name: TableName) -> Route:
        """How this table can be changed; refused if it cannot."""
        refuse_unsupported(table, name)
        return route_for(table, self._settings.lake(name.lake))

    def resolve(self, text: str) -> Resolved:
        """Resolve `table[@ref]` to a table and a snapshot."""
        reference = self.reference(text)
        table = self.load(reference.name)
        return Resolved(reference, table, find_snapshot(table, reference))

    def _names_of(self, lake: str, namespace: tuple[str, ...]) -> list[TableName]:
        catalog = self._catalogs.get(lake)
        below = () if namespace == ("",) else namespace
        with translating(f"lake {lake}"):
            pending, found = [below] if below else list(catalog.list_namespaces()), []
            while pending:
                current = pending.pop()
                if below and not _has_namespace(catalog, current):
                    continue
                found += [TableName(lake, tuple(i[:-1]), i[-1]) for i in catalog.list_tables(current)]
                pending += [child for child in catalog.list_namespaces(current) if len(child) > len(current)]
            return found

    def _has_namespace(self, lakes: list[str], namespace: str) -> bool:
        with translating(f"lake {', '.join(lakes)}"):
            return any(_has_namespace(self._catalogs.get(lake), tuple(namespace.split("."))) for lake in lakes)

    def _not_found(self, name: TableName) -> TableNotFound:
        try:
            if has_view(self._catalogs.get(name.lake), name.identifier):
                return TableNotFound(f"{name} is a view, not a table", "Use one of the tables that it reads.")
            known = {n.within_lake: n for n in self.names(name.lake)}
        except LakewardenError:
            known = {}
        hint = did_you_mean(name.within_lake, known, f"lakewarden table list shows all {len(known)} tables.")
        hint = "This takes one table, not a pattern." if set("*?") & set(name.within_lake) else hint
        return TableNotFound(f"no table {name.within_lake} in lake '{name.lake}'", hint)


def _has_namespace(catalog: Catalog, namespace: tuple[str, ...]) -> bool:
    from pyiceberg.exceptions import NoSuchNamespaceError

    try:
        return catalog.namespace_exists(namespace)
    except NoSuchNamespaceError:  # raised for invalid names
        return False


def find_snapshot(table: Table, reference: Reference) -> Snapshot:
    """The snapshot of a ref: a tag or branch, else a snapshot id, else a time."""
    ref, name = reference.ref, reference.name
    if ref is None:
        head = table.current_snapshot()
        if head is None:
            raise VersionNotFound(f"{name} has no versions yet", "Nothing has been written to it.")
        return head
    named = table.metadata.refs.get(ref)
    by_id = table.snapshot_by_id(int(ref)) if ref.isascii() and ref.isdigit() else None
    if named is not None:
        if by_id is not None and by_id.snapshot_id != named.snapshot_id:
            raise BadReference(
                f"{reference} is both a {named.snapshot_ref_type} and another snapshot's id", "Rename it."
            )
        return _existing(table, named.snapshot_id, reference)
    if by_id is not None:
        return by_id
    moment = parse_time(ref)
    if moment is not None:
        return _as_of(table, reference, to_millis(moment))
    refs = sorted(table.metadata.refs)
    otherwise = f"It has {', '.join(refs[:8])}{' …' if refs[8:] else ''}; lakewarden version list {name} shows all."
    what = "snapshot" if ref.isdigit() else "tag, branch, snapshot or time"
    raise VersionNotFound(f"{name} has no {what} {ref!r}", did_you_mean(ref, refs, otherwise))


def _existing(table: Table, snapshot_id: int, reference: Reference) -> Snapshot:
    snapshot = table.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise VersionNotFound(f"{reference} points to snapshot {snapshot_id}, which is gone", "The table needs repair.")
    return snapshot


def _as_of(table: Table, reference: Reference, milliseconds: int) -> Snapshot:
    for entry in reversed(table.history()):
        if entry.timestamp_ms <= milliseconds:
            snapshot = table.snapshot_by_id(entry.snapshot_id)
            if snapshot is None:
                raise VersionNotFound(
                    f"the version of {reference.name} at {from_millis(milliseconds):%Y-%m-%d %H:%M:%S} UTC has expired",
                    f"lakewarden version list {reference.name} shows the remaining versions.",
                )
            return snapshot
    if _had_earlier_versions(table):
        raise VersionNotFound(
            f"the version of {reference.name} at {from_millis(milliseconds):%Y-%m-%d %H:%M:%S} UTC has expired",
            f"lakewarden version list {reference.name} shows the remaining versions.",
        )
    first = (
        f"Its first version is from {from_millis(table.history()[0].timestamp_ms).isoformat()}."
        if table.history()
        else ""
    )
    raise VersionNotFound(f"{reference.name} had no version at {from_millis(milliseconds).isoformat()}", first)


def _had_earlier_versions(table: Table) -> bool:
    """Whether main had versions before the first in its log: expiry clears everything before a gap."""
    history = table.history()
    first = table.snapshot_by_id(history[0].snapshot_id) if history else None
    if first is None:
        return False
    return (
        first.parent_snapshot_id is not None
        or (first.sequence_number or 0) > 1
        or first.snapshot_id in lineage_of(table.metadata.properties)
    )
