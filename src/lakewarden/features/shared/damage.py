"""Errors about damaged files: which file, which versions need it, and how to recover."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from lakewarden.engine.base.support import refuse_unsupported
from lakewarden.engine.files.damage import Damage, damage_of
from lakewarden.engine.files.manifests import manifests_of
from lakewarden.errors import BrokenTable, LakewardenError

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.lifecycle.ground import Reader

_UNCHANGED = "Nothing was changed. "


@contextmanager
def explaining(lake: Reader, name: TableName) -> Iterator[None]:
    """Add to an error about a damaged file which versions need the file, and how to recover."""
    try:
        yield
    except BrokenTable as error:
        if error.is_explained:
            raise
        with suppress(BrokenTable):
            refuse_unsupported(lake.tables.load(name), name)  # what is encrypted looks damaged
        raise explained(lake, name, error) from error


def explained(lake: Reader, name: TableName, error: BrokenTable) -> BrokenTable:
    """The error with the versions that need the file and how to recover; unchanged if the file is unknown."""
    skip = f"exclude the table from upkeep: tables: {{{name.within_lake}: {{skip: true}}}} in lakewarden.yaml"
    try:
        table = lake.tables.load(name)
    except LakewardenError:
        hint = f"Restore the file, or point the catalog to an earlier metadata file. Until then {skip}."
        return BrokenTable(error.message, hint, file=error.file, is_explained=True)
    if not error.file:
        return error
    damage = damage_of(table, error.file)
    message = f"{error.message}; {_needed(damage)}" if damage.needed_by else error.message
    unchanged = _UNCHANGED if error.hint.startswith(_UNCHANGED) else ""
    hint = f"{unchanged}To recover: {'; or '.join(['restore the file', _without_it(name, damage), skip])}."
    return BrokenTable(message, hint, file=error.file, is_explained=True)


def problems(lake: Reader, name: TableName, table: Table) -> list[str]:
    """Damaged metadata of the current version, each with how to recover; manifests are not opened."""
    head = table.current_snapshot()
    if head is None:
        return []
    try:
        with explaining(lake, name):
            manifests = {m.manifest_path: m.manifest_length for m in manifests_of(table.io, head)}
    except BrokenTable as error:
        return [f"{error.message}. {error.hint}"]
    sizes = lake.storage(name.lake).sizes(manifests)
    found = []
    for path, size in sizes.items():
        if size != manifests[path]:
            what = "is missing" if size is None else f"has {size:,} bytes instead of {manifests[path]:,}"
            damaged = explained(lake, name, BrokenTable(f"{path} {what}", file=path))
            found.append(f"{damaged.message}. {damaged.hint}")
    return found


def _needed(damage: Damage) -> str:
    count, newest = len(damage.needed_by), damage.needed_by[0]
    needed = f"version {newest} needs it" if count == 1 else f"{count} versions need it, the newest is {newest}"
    return needed if damage.current_needs_it else f"{needed}, the current one does not"


def _without_it(name: TableName, damage: Damage) -> str:
    """How to continue without the file."""
    if not damage.current_needs_it:
        return "remove the tags and branches of versions that need it, so that retention expires those versions"
    if damage.sound is None:
        return "reload the table, since every version of main needs it"
    command = f"lakewarden version rollback {name}@{damage.sound} --apply"
    return f"roll back to version {damage.sound}, which does not need it: {command}"
