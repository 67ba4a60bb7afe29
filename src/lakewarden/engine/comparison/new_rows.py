"""The rows that a version has and an earlier version of the same table does not, counted over some of the columns.

Both versions are read with the columns of the later one, by field id, and compared as multisets. So a row is new if it
was added, or if one of these columns was changed; a renamed, added or re-added column makes no row new. Of rows that
are equal any will do. Histories of appends are not compared: their rows are those of the appended files.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakewarden.engine.base.faults import translating
from lakewarden.engine.base.quoting import identifier
from lakewarden.engine.catalog.snapshots import notes_of
from lakewarden.engine.comparison import in_process, on_spark
from lakewarden.engine.comparison.columns import Matched, match
from lakewarden.engine.comparison.compare import Comparisons, Wanted, drops
from lakewarden.engine.comparison.copied_rows import copy, reason_to_copy
from lakewarden.engine.comparison.differing_files import Differing, FileDifference, at_the_ends
from lakewarden.engine.comparison.row_counts import may_hold
from lakewarden.engine.kernel.compare_messages import SIDES, Compared, Part, Side
from lakewarden.engine.kernel.compare_task import Item, Report
from lakewarden.engine.kernel.messages import Drop
from lakewarden.engine.rewrite.driver import raise_failures
from lakewarden.engine.rows.read import Rows, version_schema
from lakewarden.engine.spark.session import Spark, translating_spark
from lakewarden.errors import Conflict
from lakewarden.records.erasure import HiddenKey

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.snapshots import Snapshot
    from pyspark.sql import DataFrame

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.files.live_files import SnapshotFiles

_MIB = 1 << 20
_HERE = 32 * _MIB
"""Differences of up to this size are found in this process, and their rows sent to Spark."""
_MOST_SENT = 512 * _MIB
_NO_ROWS_GO = ("deleted-data-files", "added-delete-files", "removed-delete-files")


@dataclass(frozen=True)
class Since:
    """Which rows are asked for: those of one version that an earlier one does not have."""

    before: Resolved
    after: Resolved
    columns: tuple[str, ...] = ()
    """The columns of the later version that are compared; all, if none is named."""
    hidden_before: tuple[HiddenKey, ...] = ()
    """What was hidden when the earlier version was read: rows that are no longer hidden are new."""
    raw: bool = False
    """Whether rows count that erasure requests hide."""


@dataclass(frozen=True)
class Found:
    """The new rows, and how many rows of the earlier version the later one does not have."""

    batches: tuple[Any, ...]
    removed: int

    @property
    def added(self) -> int:
        return sum(batch.num_rows for batch in self.batches)


class _NoFieldIds(Exception):
    """Files cannot be read by field id."""


class _TooMany(Exception):
    """The new rows take too much memory."""


class NewRows:
    """Finds the new rows of versions."""

    def __init__(self, spark: Callable[[], Spark], rows: Rows, comparisons: Callable[[], Comparisons]) -> None:
        self._spark, self._rows, self._comparisons = spark, rows, comparisons

    def frame(self, since: Since) -> DataFrame:
        """The new rows as a DataFrame; of the compared columns, at least."""
        with translating_spark():
            session = self._spark().session()
            appended = self.appended(since)
            if appended == []:  # Spark reads no empty range of versions
                return self._rows.dataframe(since.after, raw=True).where("false")
            if appended is not None:
                reader = session.read.option("start-snapshot-id", str(since.before.snapshot.snapshot_id))
                reader = reader.option("end-snapshot-id", str(since.after.snapshot.snapshot_id))
                frame = reader.table(identifier(since.after.name.lake, since.after.name.identifier))
                snapshots = [snapshot.snapshot_id for snapshot in appended]
                return self._rows.visible(
                    session, frame, self._hidden(since), since.after, snapshots, version_schema(since.after)
                )
            names = [identifier(column.name) for column in self._wanted(since).matched.columns]
            schema = self._rows.dataframe(since.after, raw=True).select(*names).schema
            found = self.here(since, _HERE, copies=True)
            if found is not None:
                return on_spark.sent(session, ((0, batch) for batch in found.batches), schema)
            with translating(f"table {since.after.name}"):
                return on_spark.added(session, *self._by_files(since, *self._files(since)), schema)

    def count(self, since: Since, most_bytes: int) -> int | None:
        """How many rows are new; None if that takes reading more than so many bytes."""
        appended = self.appended(since)
        if appended is not None and not self._hidden(since):
            return sum(int(notes_of(snapshot).get("added-records", 0)) for snapshot in appended)
        found = self.here(since, most_bytes)
        return None if found is None else found.added

    def appended(self, since: Since) -> list[Snapshot] | None:
        """The snapshots that appended the new rows; None if they must be compared.

        Spark reads what was appended with the columns that the table has now, and not across a gap left by expiry.
        """
        version = since.after
        found: list[Snapshot] = []
        if self._hidden_no_longer(since) or version_schema(version).schema_id != version.table.schema().schema_id:
            return None
        by_id = {snapshot.snapshot_id: snapshot for snapshot in version.table.metadata.snapshots}
        id: int | None = version.snapshot.snapshot_id
        while id != since.before.snapshot.snapshot_id:
            snapshot = by_id.get(id) if id is not None else None
            if snapshot is None or snapshot.summary is None:
                return None
            id = snapshot.parent_snapshot_id
            kind, notes = snapshot.summary.operation.value, notes_of(snapshot)
            if kind == "append" and not any(int(notes.get(name, 0)) for name in _NO_ROWS_GO):
                found.append(snapshot)
            elif kind != "replace":
                return None
        return found

    def here(self, since: Since, most_bytes: int, copies: bool = False) -> Found | None:
        """The new rows, found in this process; None if more than so many bytes must be read.

        With `copies`, versions whose files cannot be compared are copied, however large they are.
        """
        about = f"table {since.after.name}"
        with translating(about):
            files, live = self._files(since)
            reason = reason_to_copy([*live["from"].data, *live["to"].data], (since.before, since.after))
            if reason is None:
                if files.bytes > most_bytes:
                    return None
                try:
                    return _found(in_process.added(*self._by_files(since, files, live)), about)
                except _NoFieldIds:
                    reason = "it has files without field ids"
            if not copies and sum(file.bytes for side in SIDES for file in live[side].data) > most_bytes:
                return None
            with self._copied(since, reason) as parts:
                try:
                    return _found(
                        in_process.added(parts, self._compared(since, {})), about, _MOST_SENT if copies else None
                    )
                except _TooMany:
                    raise self._refused(since, f"{reason}, and too many rows are new") from None

    def _by_files(
        self, since: Since, files: FileDifference, live: dict[Side, SnapshotFiles]
    ) -> tuple[list[Part], Compared]:
        """What tasks are given to compare the files that differ."""
        now = self._hidden(since)
        hidden: dict[Side, tuple[Drop, ...]] = {"from": drops([*now, *self._hidden_no_longer(since)]), "to": drops(now)}
        comparisons, wanted = self._comparisons(), self._wanted(since)
        lineage = {} if self._hidden_no_longer(since) else comparisons.lineage(wanted, files)
        counted: dict[Side, set[str]] = {side: set() for side in SIDES}
        parts = list(comparisons.parts(wanted, files, live, counted, lineage))
        return parts, replace(self._compared(since, hidden), by_lineage=bool(lineage))

    def _files(self, since: Since) -> tuple[FileDifference, dict[Side, SnapshotFiles]]:
        """The files that are read. Those with rows that are no longer hidden are read for each side."""
        found, live = self._comparisons().files_of(self._wanted(since))
        hidden = self._hidden_no_longer(since)
        if not hidden:
            return found, live
        ends, held = at_the_ends(live["from"], live["to"]), may_hold(since.before.table, live["from"], hidden)
        old, new = live["from"].by_path, live["to"].by_path
        paths = [*(each.file.path for each in ends.differing), *(f.path for f in ends.shared if f.path in held)]
        sides = [*(Differing(old[path], None) for path in paths if path in old)]
        sides += [Differing(None, new[path]) for path in paths if path in new]
        return FileDifference(tuple(sides), tuple(file for file in ends.shared if file.path not in held)), live

    @contextmanager
    def _copied(self, since: Since, reason: str) -> Iterator[list[Part]]:
        """Both versions as local files, without what is hidden now."""
        if self._hidden_no_longer(since):
            raise self._refused(since, f"{reason}, and rows of it were hidden that no longer are")
        before, after = (version_schema(version) for version in (since.before, since.after))
        added = _defaults(after) - set(before._lazy_id_to_field)
        if added:
            names = ", ".join(sorted(after.find_column_name(id) or "" for id in added))
            raise self._refused(since, f"it has got columns with default values since ({names})")
        columns = self._wanted(since).matched.columns
        with tempfile.TemporaryDirectory(prefix="lakewarden-compare-") as folder:
            sides = zip(SIDES, (since.before, since.after), strict=True)
            yield [
                replace(copy(self._rows, version, side, columns, Path(folder), since.raw), number=number)
                for number, (side, version) in enumerate(sides)
            ]

    def _compared(self, since: Since, hidden: dict[Side, tuple[Drop, ...]]) -> Compared:
        return self._comparisons().compared(self._wanted(since), hidden)

    def _wanted(self, since: Since) -> Wanted:
        """Both versions, read with the columns of the later one."""
        schema = version_schema(since.after)
        whole = match(schema, schema, by_name=False)
        names = since.columns or tuple(field.name for field in schema.fields)
        matched = Matched(tuple(column for column in whole.columns if column.name in names), {})
        unknown = set(names) - set(matched.names)
        if unknown:
            raise self._refused(since, f"column {', '.join(sorted(unknown))} cannot be compared")
        return Wanted(since.before, since.after, matched, len(matched.columns), with_profile=False)

    def _hidden(self, since: Since) -> Sequence[HiddenKey]:
        """What is hidden now."""
        return [] if since.raw else [key for key in self._rows.hidden(since.after) if key.values]

    def _hidden_no_longer(self, since: Since) -> list[HiddenKey]:
        now = {(key.field_id, value) for key in self._hidden(since) for value in key.values}
        left = [
            replace(key, values=[value for value in key.values if (key.field_id, value) not in now])
            for key in since.hidden_before
        ]
        return [key for key in left if key.values]

    def _refused(self, since: Since, reason: str) -> Conflict:
        version = f"{since.before.name}@{since.before.snapshot.snapshot_id}"
        return Conflict(
            f"which rows {since.after.name} has and {version} does not cannot be found out: {reason}",
            "Undo the backfill and run it again, or write the rest by a new version of its files with "
            "initial_checkpoint.",
        )


def _found(items: Iterator[Item | Report], about: str, most_bytes: int | None = None) -> Found:
    batches, removed, size = [], 0, 0
    for item in items:
        if not isinstance(item, Report):
            batches.append(item[1])
            size += item[1].nbytes
            if most_bytes is not None and size > most_bytes:
                raise _TooMany
            continue
        if item.failure is not None and item.failure.kind == "no-field-ids":
            raise _NoFieldIds
        raise_failures(about, [item.failure])
        removed += item.tally.removed
    return Found(tuple(batches), removed)


def _defaults(schema: Schema) -> set[int]:
    """The ids of fields that rows of earlier files have a value of."""
    return {id for id, field in schema._lazy_id_to_field.items() if field.initial_default is not None}
