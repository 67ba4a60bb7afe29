"""`erasure purge`.

Files with rows of the keys are found, and each is rewritten once without them. One commit replaces them in all versions
that refs point to, and expires the versions that had the old files. Files that become unreachable are deleted at once;
they are recorded before (`purging/intent.py`), so that a second run can continue. Then unreferenced copies are searched
(`purging/stray_copies.py`).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from lakewarden.engine.base.locations import place_digest
from lakewarden.engine.catalog.metadata_log import dead_entries
from lakewarden.engine.catalog.snapshot_removal import BACKFILL, without_revealing
from lakewarden.engine.commit.publish import check_identity
from lakewarden.engine.commit.refs import RefChange
from lakewarden.engine.commit.shortened_log import TO_RESTORE, ShortenedLog
from lakewarden.engine.files.reachable import own_places
from lakewarden.engine.files.unreachable import is_own, still_unreachable
from lakewarden.engine.history.replace_files import ReplaceFiles
from lakewarden.engine.history.replacement import Replacement
from lakewarden.engine.proof.byte_search import Needles
from lakewarden.engine.rows.redaction import Redaction
from lakewarden.engine.rows.search import search
from lakewarden.errors import CatalogUnavailable, LakewardenError, StorageUnavailable
from lakewarden.features.erasure.hidden.hidden_positions import carry, hidden_positions
from lakewarden.features.erasure.proofs import prove_action
from lakewarden.features.erasure.proofs.proof_records import ThisRun
from lakewarden.features.erasure.purging import checkpoints_action
from lakewarden.features.erasure.purging.intent import Intent, OutsideFile, intended, write_down
from lakewarden.features.erasure.purging.planning import (
    dirty_refs,
    for_unclosed,
    plan_for,
    planned_snapshots,
    refs_before,
    refuse_losing_columns,
)
from lakewarden.features.erasure.purging.record import NOTHING, record
from lakewarden.features.erasure.purging.rewriting import rewrite
from lakewarden.features.erasure.purging.row_owners import RowOwners
from lakewarden.features.erasure.purging.stray_copies import erase_strays
from lakewarden.features.erasure.requests.action_requests import still_open
from lakewarden.features.erasure.requests.asked_values import are_at, asked_values
from lakewarden.features.erasure.requests.checkpoints import keys_of_requests
from lakewarden.features.erasure.requests.due import Due, agenda
from lakewarden.features.erasure.requests.mark_action import unmark_ended
from lakewarden.features.erasure.requests.spelling import respell
from lakewarden.features.orphan.judgement import refuse_forbidden
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.shared.each import joined, refusal
from lakewarden.features.viewset.definition import of_table
from lakewarden.features.viewset.erased import forget_versions, keep_identities
from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.basics import SPARK_SQL
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.request import Completes, Positional, TableOperation
from lakewarden.records.erasure import ErasureState, EvidenceKind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.base.table_name import TableName
    from lakewarden.engine.rows.search import Searched
    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader, Writer
    from lakewarden.records.erasure import HiddenKey

_SHORT = 6  # bytes: shorter values are compared as a whole, since they may be in a longer text by chance


class Purge(TableOperation):
    """Erase the rows of requests from every version of their tables, and prove it.

    Every branch and tag keeps its name, settings, schema and all other rows, and points to a version without the erased
    rows. The versions that had them expire in the same commit, and their files are deleted at once. Then everything
    stored for the table is searched: only a clean proof closes a request.
    """

    destructive = True

    table: Annotated[str | None, Positional(), Completes("tables")] = Field(
        None, description="[lake.]namespace.table: all requests that are due in it."
    )
    all: bool = Field(False, description="All requests that are due, in all tables.")
    request: list[str] = Field([], description="Only these requests.")
    now: bool = Field(False, description="Include requests in their grace period.")
    lose_columns: bool = Field(
        False, description="On format v3, proceed even if a tag loses columns that the table no longer has."
    )

    def plan(self, lake: Reader) -> Plan:
        found, neighbours = agenda(lake, self.table, self.all, self.request, self.now), Neighbours(lake)
        target = self.table or ", ".join(self.request) or "all tables"

        ids = sorted({id for due in found.tables for id in due.ids})
        elsewhere = Plan(self.kind(), target, tuple(checkpoints_action.actions_for(lake, ids)), found.waiting)

        def plan_one(due: Due) -> Plan:
            try:
                return plan_for(lake, self.kind(), due, neighbours, self.lose_columns, anew=bool(elsewhere.actions))
            except LakewardenError as error:
                if len(found.tables) == 1:
                    raise
                return Plan(self.kind(), due.table, refused=(refusal(due.table, error),))

        parts = [plan_one(due) for due in found.tables]
        proved = [due for due, part in zip(found.tables, parts, strict=True) if not (part.actions or part.refused)]
        parts += for_unclosed(lake, self.kind(), proved)
        plan = joined(self.kind(), target, [elsewhere, *parts])
        return replace(plan, warnings=tuple(dict.fromkeys(plan.warnings)))

    def holds(self, action: Action, lake: Reader) -> bool:
        if action.verb == prove_action.PROVE:
            return prove_action.holds(action, lake)
        return _is_purged(action, lake)

    def apply(self, action: Action, lake: Writer) -> Outcome:
        if action.verb == prove_action.PROVE:
            return prove_action.apply(action, lake)
        return _purge(action, lake, self.lose_columns)

    def tidy(self, action: Action, lake: Writer) -> None:
        super().tidy(action, lake)
        unmark_ended(action, lake)

    def concluded(self, result: dict[str, Any], lake: Reader) -> dict[str, Any]:
        return lake.kept(ThisRun).concluded({**NOTHING, **result} if result else result)


def _is_purged(action: Action, lake: Reader) -> bool:
    """Whether the purge is recorded and the versions that had the rows are expired."""
    there = {snapshot.snapshot_id for snapshot in lake.tables.load(action.subject).metadata.snapshots}
    if there & set(planned_snapshots(action)):
        return False
    purges = lake.state.erasure.evidence([EvidenceKind.PURGED], uuid=str(action.arguments["uuid"]), documents=False)
    return any(purge.action == action.id for purge in purges)


def _purge(action: Action, lake: Writer, lose_columns: bool) -> Outcome:
    """Erase the rows; a second run continues where the first stopped."""
    if action.arguments.get("checkpoints_only"):
        return _forget_checkpoints(action, lake)
    name = lake.tables.name(action.subject)
    table = lake.tables.load(name)
    check_identity(table, action.subject, str(action.arguments["uuid"]))
    requests = still_open(action, lake)
    respell(lake, name, table, requests)
    keys = lake.state.erasure.hidden(str(action.arguments["uuid"]), requests)
    redaction = Redaction.of(table.metadata, [key.field_id for key in keys])
    with redaction.of_errors():
        refuse_forbidden(name, table)
        Neighbours(lake).refuse_shared(name, table)
        found = search(
            table, keys, lake.files, lake.storage(name.lake), progress=lambda d, t: lake.progress(d, t, "files read")
        )
        reach("purge.searched")
        if action.route == SPARK_SQL and not lose_columns:
            refuse_losing_columns(lake, name, table, found)
        intent = intended(lake, action, requests)
        intent = _forget_in_properties(action, lake, table, keys, requests, intent)
        if found.matches or found.tainted:
            intent = _replace_everywhere(action, lake, table, keys, found, requests, intent)
        else:
            _keep_partitions(lake, name, table, keys, ())
        reach("purge.committed")
        intent = _shorten_log(action, lake, requests, intent)
        intent = _remove(action, lake, intent)
        reach("purge.removed")
        stray = erase_strays(lake, name, str(action.arguments["uuid"]), keys, intent.files)
        reach("purge.strays")
        view = of_table(name, table)
        if view is not None:
            forget_versions(lake, view, _values(keys))
        return record(action, lake, requests, keys, intent, stray, redaction)


def _forget_checkpoints(action: Action, lake: Writer) -> Outcome:
    """Forget checkpoints that are values of a source, in a table that the requests are not about."""
    name = lake.tables.name(action.subject)
    table = lake.tables.load(name)
    check_identity(table, action.subject, str(action.arguments["uuid"]))
    requests = still_open(action, lake)
    keys = keys_of_requests(lake, requests)
    refuse_forbidden(name, table)
    found = checkpoints_action.searched(table, asked_values(lake, lake.state.erasure.many(requests)))
    intent = intended(lake, action, requests)
    intent = _forget_in_properties(action, lake, table, keys, requests, intent)
    if found.tainted:
        intent = _replace_everywhere(action, lake, table, keys, found, requests, intent)
    reach("purge.committed")
    intent = _remove(action, lake, _shorten_log(action, lake, requests, intent))
    return record(action, lake, requests, (), intent, (), Redaction.of(table.metadata, ()))


def _replace_everywhere(
    action: Action,
    lake: Writer,
    table: Table,
    keys: Sequence[HiddenKey],
    found: Searched,
    requests: Sequence[str],
    before: Intent,
) -> Intent:
    """Rewrite the files and replace them in all versions in one commit; returns the intent that was carried out."""
    dirty = frozenset({*found.snapshots, *found.tainted})
    all_there = frozenset(snapshot.snapshot_id for snapshot in table.metadata.snapshots)
    outside = {
        path: OutsideFile(path, match.content, match.bytes, match.matching)
        for path, match in found.matches.items()
        if not is_own(table, path)
    }
    owners = RowOwners.of(lake, action.subject, table, found, requests)
    were = owners.in_refs(lake, table, refs_before(lake, table, found))
    intent = before.joined(Intent(outside=outside, refs=were, snapshots=all_there, dirty=dirty)).joined(owners.intent())
    intent = replace(intent, metadata_before=intent.metadata_before or table.metadata_location)
    name = lake.tables.name(action.subject)
    storage = lake.storage(name.lake)

    def about_to(paths: Sequence[str]) -> None:
        nonlocal intent
        unknown = [path for path in paths if not intent.knows(path)]
        sizes = storage.sizes(path for path in unknown if is_own(table, path))
        kinds = {path: match.content for path, match in found.matches.items()}
        intent = intent.with_files(unknown, partial(is_own, table), sizes, kinds)
        write_down(lake, action, requests, intent)
        reach("purge.intended")

    if action.route == SPARK_SQL:
        refs = [ref.name for ref in dirty_refs(lake, table, found)]
        dropped = {path: match.matching for path, match in found.matches.items() if match.content == "data"}
        intent = intent.joined(Intent(rows_dropped=dropped))
        whole = {p for p, match in found.matches.items() if match.content == "data" and match.matching == match.rows}
        _keep_partitions(lake, name, table, keys, whole)
        lake.spark_cleansing.cleanse(name, keys, refs, sorted(dirty), about_to, lake.progress)
        return intent
    rewritten = rewrite(action, lake, table, keys, found)
    reach("purge.rewritten")
    _carry_hidden(action, lake, table, requests, rewritten.replacements)
    expired = {p: m.matching for p, m in found.matches.items() if m.content == "data" and p in rewritten.obsolete}
    intent = intent.joined(rewritten.intent()).joined(Intent(rows_expired=expired))
    _keep_partitions(lake, name, table, keys, {p for p, new in rewritten.replacements.items() if new.file is None})
    change = ReplaceFiles(
        table=action.subject,
        uuid=str(action.arguments["uuid"]),
        replacements=rewritten.replacements,
        obsolete=rewritten.obsolete,
        tainted=found.tainted,
        reveals=_reveals(lake, keys, requests),
        about_to=about_to,
    )
    try:
        lake.commits.publish(change)
    except CatalogUnavailable:
        raise  # the commit may have landed: a resumed run checks
    except LakewardenError:
        storage.delete_all(
            still_unreachable(lake.tables.load(action.subject), [file.path for file in rewritten.new_files])
        )
        raise
    return intent


def _keep_partitions(
    lake: Writer, name: TableName, table: Table, keys: Sequence[HiddenKey], going: Collection[str]
) -> None:
    """A view set knows its partitions by their files: those that lose all rows are recorded as empty."""
    view = of_table(name, table)
    if view is not None:
        keep_identities(lake, view, going, _values(keys))


def _values(keys: Sequence[HiddenKey]) -> set[str]:
    return {value for key in keys for value in key.values}


def _forget_in_properties(
    action: Action, lake: Writer, table: Table, keys: Sequence[HiddenKey], requests: Sequence[str], intent: Intent
) -> Intent:
    """Forget checkpoints of backfills in the table's properties, which outlive the versions that had them."""
    kept = {key: text for key, text in table.metadata.properties.items() if key.startswith(BACKFILL)}
    reveals = _reveals(lake, keys, requests)
    stamps = {key: without_revealing(text, reveals) for key, text in kept.items()}
    changed = {key: text for key, text in stamps.items() if text != kept[key]}
    if not changed:
        return intent
    earlier = [*(entry.metadata_file for entry in table.metadata.metadata_log), table.metadata_location]
    sizes = lake.storage(lake.tables.name(action.subject).lake).sizes(earlier)
    intent = intent.with_files(earlier, partial(is_own, table), sizes, {})
    write_down(lake, action, requests, intent)
    reach("purge.intended")
    uuid = str(table.metadata.table_uuid)
    lake.part("stamps").commits.publish(RefChange(action.subject, uuid, {}, properties=changed, route=action.route))
    return intent


def _carry_hidden(
    action: Action, lake: Writer, table: Table, requests: Sequence[str], replacements: Mapping[str, Replacement]
) -> None:
    """Record the positions of rows hidden for other requests in the new files."""
    others = {request.id for request in lake.state.erasure.list([ErasureState.OPEN], str(action.arguments["uuid"]))}
    others -= set(requests)
    hidden = hidden_positions(lake, table, others)
    moved: dict[str, list[int]] = {}
    for path, new in replacements.items():
        at = hidden.get(place_digest(path), ()) if hidden and new.file is not None else ()
        if at and new.file is not None:
            gone = set(new.dropped)
            moved[new.file.file_path] = [place - bisect_left(new.dropped, place) for place in at if place not in gone]
    carry(lake, action.subject, str(action.arguments["uuid"]), action.id, others, moved)


def _shorten_log(action: Action, lake: Writer, requests: Sequence[str], intent: Intent) -> Intent:
    """Remove entries of deleted files from the metadata log; all earlier metadata files are deleted with them.

    If the client writes the metadata, the commit has already removed them. Metadata that another writer committed
    between our search and our commit is in the log too, and references expired versions.
    """
    table = lake.tables.load(action.subject)
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    if not intent.files or (not dead_entries(table, intent.files) and TO_RESTORE not in table.metadata.properties):
        return intent
    if dead_entries(table, intent.files):
        sizes = lake.storage(lake.tables.name(action.subject).lake).sizes(log)
        intent = intent.with_files(log, partial(is_own, table), sizes, {})
        write_down(lake, action, requests, intent)
    lake.commits.publish(ShortenedLog(action.subject, str(action.arguments["uuid"]), tuple(intent.files)))
    return intent


def _remove(action: Action, lake: Writer, intent: Intent) -> Intent:
    """Permanently delete intended files that are the table's own and unreachable now.

    Returns what is deleted, by this or an earlier run, and what stays outside because another table may own it.
    """
    name = lake.tables.name(action.subject)
    table, storage = lake.tables.load(name), lake.storage(name.lake)
    free = frozenset(still_unreachable(table, [*intent.files, *intent.outside]))
    done = intent.of_free(free, partial(is_own, table))
    removed = storage.erase_all(
        list(done.files), own_places(table), lambda so_far, all: lake.progress(so_far, all, "files removed")
    )
    if removed.failed:
        raise StorageUnavailable(
            f"{action.subject}: {len(removed.failed)} files with erased rows could not be deleted, such as "
            f"{removed.failed[0][0]}: {removed.failed[0][1]}",
            "No version references them any more. Fix the cause, then resume the operation.",
        )
    return done


def _reveals(lake: Reader, keys: Sequence[HiddenKey], requests: Sequence[str]) -> Callable[[str], bool]:
    """As `_mentions`, but tables and values are looked up only once a text is given: few tables have checkpoints."""

    @cache
    def mentions() -> Callable[[str], bool]:
        return _mentions(keys, asked_values(lake, lake.state.erasure.many(requests)))

    def reveals(text: str) -> bool:
        return mentions()(text)

    return reveals


def _mentions(keys: Sequence[HiddenKey], asked: Sequence[AskedValues]) -> Callable[[str], bool]:
    """A check whether a text contains one of the values. Numbers are skipped: in metadata they are counts.

    In a list of a column and a value, which is how the checkpoints of backfills are looked at, numbers and short texts
    count too.
    """
    values = (value for key in keys if key.kind in ("string", "uuid") for value in key.values)
    texts = [text for text in values if not text.isdigit()]
    short = {text for text in texts if len(text.encode()) < _SHORT}
    long = Needles(text.encode() for text in texts if text not in short)

    def is_placed(text: str) -> bool:
        try:
            column, value = json.loads(text)
        except (ValueError, TypeError):
            return False
        return are_at(asked, str(column), value)

    return lambda text: bool(long.within(text.encode())) or (is_placed(text) if text[:1] == "[" else text in short)
