"""Erasing rows from every version of one table.

Files that hold rows of the keys are found, each is written anew once without them, and one commit puts the new ones
in the place of the old in all versions that refs lead to, while the versions that had the old ones go. What the
commit sets free leaves storage at once; it is written down before (`intent.py`), so that a second run can go on.
Copies that nothing leads to are looked for after that (`strays.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lakewarden.engine.changes import Cleansing, Replacement, ShortenedLog
from lakewarden.engine.locations import place_digest
from lakewarden.engine.metadata_log import TO_RESTORE, dead_entries
from lakewarden.engine.proof_bytes import Needles
from lakewarden.engine.publish import check_identity
from lakewarden.engine.reachable import own_places
from lakewarden.engine.search import search
from lakewarden.engine.unreachable import is_own, still_unreachable
from lakewarden.engine.veil import Veil
from lakewarden.errors import CatalogUnavailable, LakewardenError, StorageUnavailable
from lakewarden.features.erasure.intent import Intent, OldFile, OutsideFile, evidence, intended, write_down
from lakewarden.features.erasure.planning import dirty_refs, planned_snapshots, refs_before, refuse_losing_columns
from lakewarden.features.erasure.proving import still_open
from lakewarden.features.erasure.remembered import carry, remembered
from lakewarden.features.erasure.rewriting import rewrite
from lakewarden.features.erasure.spelling import respell
from lakewarden.features.erasure.strays import erase_strays
from lakewarden.features.erasure.whose import Whose
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import SPARK_SQL, Action, Outcome
from lakewarden.lifecycle.tombstones import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.search import Searched
    from lakewarden.engine.storage import StoredFiles
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.lifecycle.tombstones import HiddenKey

_TELLING = 6  # bytes from which on a text within another is hardly there by chance
NOTHING: dict[str, Any] = dict.fromkeys(
    (
        "tombstones_applied",
        "rows_dropped_by_tombstones",
        "files_rewritten",
        "bytes_with_rows",
        "refs_repointed",
        "snapshots_expired",
        "bytes_removed",
    ),
    0,
)


def holds(action: Action, lake: Reader) -> bool:
    """Whether the purge came to its end, and the versions are gone that had the rows."""
    there = {snapshot.snapshot_id for snapshot in lake.tables.load(action.table).metadata.snapshots}
    if there & set(planned_snapshots(action)):
        return False
    told = lake.tombstones.evidence([EvidenceKind.PURGED], uuid=str(action.arguments["uuid"]), documents=False)
    return any(evidence.action == action.id for evidence in told)


def apply(action: Action, lake: Writer, lose_columns: bool = False) -> Outcome:
    """Erase; applied again after it stopped anywhere, it goes on."""
    name = lake.tables.name(action.table)
    table = lake.tables.load(name)
    check_identity(table, action.table, str(action.arguments["uuid"]))
    requests = still_open(action, lake)
    respell(lake, name, table, requests)
    keys = lake.tombstones.hidden(str(action.arguments["uuid"]), requests)
    veil = Veil.of(table.metadata, [key.field_id for key in keys])
    with veil.over_errors():
        refuse_forbidden(name, table)
        Neighbours(lake).refuse_shared(name, table)
        found = search(
            table, keys, lake.files, lake.storage(name.lake), progress=lambda d, t: lake.progress(d, t, "files read")
        )
        reach("purge.searched")
        if action.route == SPARK_SQL and not lose_columns:
            refuse_losing_columns(lake, name, table, found)
        intent = intended(lake, action, requests)
        if found.matches or found.tainted:
            intent = _replace_everywhere(action, lake, table, keys, found, requests, intent)
        reach("purge.committed")
        intent = _shorten_log(action, lake, requests, intent)
        intent = _remove(action, lake, intent)
        reach("purge.removed")
        stray = erase_strays(lake, name, str(action.arguments["uuid"]), keys, intent.files)
        reach("purge.strays")
        return _told(action, lake, requests, keys, intent, stray, veil)


def _replace_everywhere(
    action: Action,
    lake: Writer,
    table: Table,
    keys: Sequence[HiddenKey],
    found: Searched,
    requests: Sequence[str],
    before: Intent,
) -> Intent:
    """Write the files anew and swap them in all versions at once; answers with what was intended, which is done."""
    dirty = frozenset({*found.snapshots, *found.tainted})
    all_there = frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    outside = {
        path: OutsideFile(path, match.content, match.bytes, match.matching)
        for path, match in found.matches.items()
        if not is_own(table, path)
    }
    whose = Whose.of(lake, action.table, table, found, requests)
    were = whose.in_refs(lake, table, refs_before(lake, table, found))
    intent = before.joined(Intent(outside=outside, refs=were, snapshots=all_there, dirty=dirty)).joined(whose.intent())
    intent = replace(intent, metadata_before=intent.metadata_before or table.metadata_location)
    storage = lake.storage(lake.tables.name(action.table).lake)

    def about_to(paths: Sequence[str]) -> None:
        nonlocal intent
        unknown = [path for path in paths if not intent.knows(path)]
        sizes = storage.sizes(path for path in unknown if is_own(table, path))
        intent = intent.with_files(unknown, partial(is_own, table), sizes, _kinds(found))
        write_down(lake, action, requests, intent)
        reach("purge.intended")

    if action.route == SPARK_SQL:
        name = lake.tables.name(action.table)
        refs = [ref.name for ref in dirty_refs(lake, table, found)]
        dropped = {path: match.matching for path, match in found.matches.items() if match.content == "data"}
        intent = intent.joined(Intent(rows_dropped=dropped))
        lake.spark_cleansing.cleanse(name, keys, refs, sorted(dirty), about_to, lake.progress)
        return intent
    rewritten = rewrite(action, lake, table, keys, found)
    reach("purge.rewritten")
    _carry_hidden(action, lake, table, requests, rewritten.replacements)
    expired = {p: m.matching for p, m in found.matches.items() if m.content == "data" and p in rewritten.obsolete}
    intent = intent.joined(rewritten.intent()).joined(Intent(rows_expired=expired))
    change = Cleansing(
        table=action.table,
        uuid=str(action.arguments["uuid"]),
        replacements=rewritten.replacements,
        obsolete=rewritten.obsolete,
        tainted=found.tainted,
        tells=_telling(keys),
    )
    try:
        lake.commits.cleanse(change, about_to)
    except CatalogUnavailable:
        raise  # it may have landed: resume looks
    except LakewardenError:
        storage.delete_all(
            still_unreachable(lake.tables.load(action.table), [file.path for file in rewritten.new_files])
        )
        raise
    return intent


def _carry_hidden(
    action: Action, lake: Writer, table: Table, requests: Sequence[str], replacements: Mapping[str, Replacement]
) -> None:
    """Remember where rows that are hidden for other requests are in the new files."""
    others = {request.id for request in lake.tombstones.list([ErasureState.OPEN], str(action.arguments["uuid"]))}
    others -= set(requests)
    hidden = remembered(lake, table, others)
    moved: dict[str, list[int]] = {}
    for path, new in replacements.items():
        at = hidden.get(place_digest(path), ()) if hidden and new.file is not None else ()
        if at and new.file is not None:
            gone = set(new.dropped)
            moved[new.file.file_path] = [place - bisect_left(new.dropped, place) for place in at if place not in gone]
    carry(lake, action.table, str(action.arguments["uuid"]), action.id, others, moved)


def _shorten_log(action: Action, lake: Writer, requests: Sequence[str], intent: Intent) -> Intent:
    """Drop what the metadata log still references of the files that go; all earlier metadata goes with them.

    Where the client writes metadata, the commit itself has dropped them. Others' metadata that was written between the
    look at the table and the commit is in the log too, and references versions that went.
    """
    table = lake.tables.load(action.table)
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    if not intent.files or (not dead_entries(table, intent.files) and TO_RESTORE not in table.metadata.properties):
        return intent
    if dead_entries(table, intent.files):
        sizes = lake.storage(lake.tables.name(action.table).lake).sizes(log)
        intent = intent.with_files(log, partial(is_own, table), sizes, {})
        write_down(lake, action, requests, intent)
    lake.commits.shorten_log(ShortenedLog(action.table, str(action.arguments["uuid"]), tuple(intent.files)))
    return intent


def _remove(action: Action, lake: Writer, intent: Intent) -> Intent:
    """Take away for good what is the table's own and nothing leads to now; the rest of what was intended stays.

    Answers with what is gone, whichever run took it, and with what stays outside: another table may own that.
    """
    name = lake.tables.name(action.table)
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    free = frozenset(still_unreachable(table, [*intent.files, *intent.outside]))
    done = intent.of_free(free, partial(is_own, table))
    removed = storage.erase_all(
        list(done.files), own_places(table), lambda so_far, all: lake.progress(so_far, all, "files removed")
    )
    if removed.failed:
        raise StorageUnavailable(
            f"{action.table}: {len(removed.failed)} files that hold erased rows could not be removed, as "
            f"{removed.failed[0][0]}: {removed.failed[0][1]}",
            "No version leads to them any more. Resume the operation when that is mended.",
        )
    return done


def _telling(keys: Sequence[HiddenKey]) -> Callable[[str], bool]:
    """What knows a text that holds one of the values. A number in it is a count, and nobody's key."""
    telling = (value for key in keys if key.kind in ("string", "uuid") for value in key.values)
    texts = [text for text in telling if not text.isdigit()]
    short = {text for text in texts if len(text.encode()) < _TELLING}
    long = Needles(text.encode() for text in texts if text not in short)
    return lambda text: text in short or bool(long.within(text.encode()))


def _kinds(found: Searched) -> Mapping[str, str]:
    return {path: match.content for path, match in found.matches.items()}


def _there(storage: StoredFiles, paths: Collection[str]) -> Collection[str]:
    """Which files outside are there: all of them where that cannot be told, such as in a bucket that is not ours."""
    try:
        return {path for path, size in storage.sizes(paths).items() if size is not None}
    except LakewardenError:
        return paths


def _told(
    action: Action,
    lake: Writer,
    requests: Sequence[str],
    keys: Sequence[HiddenKey],
    intent: Intent,
    stray: Sequence[OldFile],
    veil: Veil,
) -> Outcome:
    """Record what was done, as a certificate is to tell it; none of it holds a value."""
    table = lake.tables.load(action.table)
    storage = lake.storage(lake.tables.name(action.table).lake)
    sizes, outside = storage.sizes(intent.new_files), _there(storage, intent.outside)
    now = {name: ref.snapshot_id for name, ref in table.metadata.refs.items()}
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    with_rows = {*intent.rows_dropped, *intent.rows_expired}
    moved = [ref for ref in intent.refs.values() if now.get(ref.name) not in (None, ref.before)]
    counts = {
        "tombstones_applied": sum(len(key.values) for key in keys),
        "rows_dropped_by_tombstones": sum(intent.rows_dropped.values()) + sum(intent.rows_expired.values()),
        "files_rewritten": len(intent.rows_dropped),
        "bytes_with_rows": sum(f.bytes for p, f in intent.files.items() if p in with_rows),
        "refs_repointed": len(moved),
        "snapshots_expired": len(intent.snapshots - there),
        "bytes_removed": sum(file.bytes for file in (*intent.files.values(), *stray)),
    }
    document = {
        "refs": [
            {
                "name": ref.name,
                "kind": ref.kind,
                "before": ref.before,
                "after": now.get(ref.name),
                "rows": ref.rows,
                "by_request": dict(ref.by_request),
            }
            for ref in moved
        ],
        "by_request": {
            request: {
                "rows": sum(intent.shares.get(request, {}).values()),
                "values": sorted(intent.occurred.get(request, ())),
            }
            for request in requests
        },
        "snapshots_expired": counts["snapshots_expired"],
        "files": [
            {**vars(file), "path": veil.path(file.path), "rows": intent.rows_of(file.path)}
            for file in (*intent.files.values(), *stray)
        ],
        "copies_removed": len(stray),
        "outside": [
            {**vars(file), "path": veil.path(file.path), "by_request": intent.rows_of(file.path)}
            for file in intent.outside.values()
            if file.path in outside  # else its owner has removed it, or its path was veiled
        ],
        "new_files": [
            {**vars(file), "path": veil.path(file.path), "instead_of": veil.path(file.instead_of)}
            for file in intent.new_files.values()
            if sizes[file.path] is not None  # else of an attempt that never landed
        ],
        "counts": counts,
        "metadata_before": veil.path(intent.metadata_before or table.metadata_location),
        "metadata_after": veil.path(table.metadata_location),
        "route": action.route,
    }
    evidence(lake, action, EvidenceKind.PURGED, requests, document)
    reach("purge.recorded")
    return Outcome(counts)
