"""What `materialize` and `regenerate` share: a time that is cut into partitions, and the action that writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from lakewarden.engine.base.table_name import parse_time
from lakewarden.engine.catalog.snapshots import stamped
from lakewarden.engine.rows.read import version_schema
from lakewarden.engine.sql.queries import Ranges
from lakewarden.errors import BadValue, StalePlan
from lakewarden.features.viewset.catalogue import Near, PartitionRow, partitions
from lakewarden.features.viewset.definition import GLOBAL, ViewSet, view_set
from lakewarden.features.viewset.former_columns import refuse_former_columns
from lakewarden.features.viewset.history import history_of
from lakewarden.features.viewset.overlap import schema_changed, unshared
from lakewarden.features.viewset.writing import Wanted, source_digests, source_of, write
from lakewarden.lifecycle.action import Action, Estimate, Outcome
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList, PlannedFile
from lakewarden.lifecycle.request import Positional, Request
from lakewarden.lifecycle.requirement import SnapshotKept, TableIs, table_lease
from lakewarden.quantities import Duration, from_micros, show_duration

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.lifecycle.ground import Reader, Writer

_MOST = 5_000  # partitions of one action


class WritesRanges(Request):
    """An operation that writes the partitions of a time, all of one length."""

    name: Annotated[str, Positional()] = Field(description="The view set.")
    begin: str = Field(description="From this insert time on, as in 2026-01-01 or 2026-01-01T06:00:00Z.")
    end: str = Field(description="Up to this insert time, which is not included.")
    delta: Duration = Field(timedelta(hours=1), description="The length of a partition, as in 1h or 1d.")
    instance: str = Field(GLOBAL, description="The instance.")

    def ranges(self) -> Ranges:
        begin, end = _moment(self.begin, "begin"), _moment(self.end, "end")
        if self.delta <= timedelta(0) or begin >= end:
            raise BadValue("--end must be later than --begin, and --delta longer than nothing")
        count, rest = divmod(end - begin, self.delta)
        if rest:
            raise BadValue(
                f"the time from {self.begin} to {self.end} is not a multiple of {show_duration(self.delta)}",
                "Choose another --end or --delta.",
            )
        return Ranges(begin, self.delta, count)

    def near(self, lake: Reader, view: ViewSet) -> list[PartitionRow]:
        """The partitions of the instance that overlap with the time and must not stay beside new ones."""
        return [row for row in self._there(lake, view) if self.replaces(view, row)]

    def _there(self, lake: Reader, view: ViewSet) -> list[PartitionRow]:
        ranges = self.ranges()
        return partitions(lake, view, Near(self.instance, ranges.begin, ranges.end))

    def replaces(self, view: ViewSet, row: PartitionRow) -> bool:
        """Whether a new partition of the same time takes the place of this one."""
        raise NotImplementedError

    def digests(self, lake: Reader, view: ViewSet, ranges: Ranges) -> tuple[dict[int, str], dict[str, Resolved]]:
        """What the source holds in each range now, and the versions that were read for it."""
        versions = {spelled: lake.tables.resolve(spelled) for spelled in view.definition.statement.tables}
        return source_digests(lake, view, source_of(view, self.instance, versions), ranges), versions

    def digests_when_kept(
        self, lake: Reader, view: ViewSet, ranges: Ranges, versions: Mapping[str, Resolved]
    ) -> list[dict[int, str]]:
        """What the source holds as former definitions saw it, whose partitions count as current."""
        history = history_of(view.table.metadata.properties) or {}
        source = source_of(view, self.instance, versions)
        former = [one.definition for kept in sorted(view.kept) for one in history.get(kept, ())]
        return [source_digests(lake, replace(view, definition=one), source, ranges) for one in former]

    def planned(
        self,
        view: ViewSet,
        versions: Mapping[str, Resolved],
        ranges: Ranges,
        wanted: Mapping[int, str],
        replaced: Iterable[PartitionRow],
    ) -> Plan:
        """The plan that writes these ranges; partitions that they replace go in the same commit."""
        numbers, going = sorted(wanted), list(replaced)
        actions = []
        while numbers:
            size = _whole(numbers, ranges, going)
            part, numbers = {number: wanted[number] for number in numbers[:size]}, numbers[size:]
            until = ranges.of(max(part))[1] if numbers else ranges.end
            own = [row for row in going if row.begin_insert_time < until]
            going = [row for row in going if row.begin_insert_time >= until]
            actions.append(self._action(view, versions, ranges, part, own))
        return Plan(self.address().kind, str(view.table_name), tuple(actions))

    def holds(self, action: Action, lake: Reader) -> bool:
        """Whether every range is there as planned, and nothing is left of what it replaces."""
        view = view_set(lake, self.name)
        if view.schema_hash != action.arguments["schema_hash"]:
            return False
        wanted = _wanted(action, view, {}).bounds()
        found: dict[tuple[datetime, datetime], set[str]] = {}
        files, left = set(), set(action.texts("empty"))
        for row in self._there(lake, view):
            files.add(row.file_path)
            is_wanted = row.file_schema_hash == view.schema_hash and row.identity[1:3] in wanted
            if row.identity_text in left and row.file_path is None and not is_wanted:
                return False
            if row.file_schema_hash == view.schema_hash:
                found.setdefault((row.begin_insert_time, row.end_insert_time), set()).add(row.source_data_hash)
        return not any(file.path in files for file in action.files.items) and all(
            found.get(bounds) == {digest} for bounds, digest in wanted.items()
        )

    def apply(self, action: Action, lake: Writer) -> Outcome:
        view = view_set(lake, self.name)
        if view.schema_hash != action.arguments["schema_hash"]:
            raise schema_changed(view)
        refuse_former_columns(view)
        wanted = _wanted(action, view, _pinned(action, lake))
        paths, empty = [file.path for file in action.files.items], set(action.texts("empty"))
        unchanged = unshared(lake, view, wanted.identities(), {*paths, *empty})

        def check(table: Table) -> None:
            unchanged(table)
            _pinned(action, lake)

        if stamped(view.table, lake.stamp) is None:
            check(view.table)  # before the work, and again in the commit
        return Outcome(write(lake, wanted, paths, empty, check))

    def _action(
        self,
        view: ViewSet,
        versions: Mapping[str, Resolved],
        ranges: Ranges,
        wanted: Mapping[int, str],
        replaced: list[PartitionRow],
    ) -> Action:
        target, uuid = str(view.table_name), str(view.table.metadata.table_uuid)
        begin, delta = ranges.micros
        first, last = ranges.of(min(wanted))[0], ranges.of(max(wanted))[1]
        instead = f", in place of {len({row.identity for row in replaced})}" if replaced else ""
        empty = tuple(row.identity_text for row in replaced if row.file_path is None)
        return Action(
            verb="write",
            subject=target,
            lease=table_lease(uuid),
            says=f"write {len(wanted)} partitions of {self.instance} between {first:%Y-%m-%d %H:%M} and "
            f"{last:%Y-%m-%d %H:%M}{instead}",
            arguments={
                "begin": begin,
                "delta": delta,
                "instance": self.instance,
                "schema_hash": view.schema_hash,
                "numbers": tuple(wanted),
                "digests": tuple(wanted.values()),
                "tables": tuple(versions),
                "snapshots": tuple(str(version.snapshot.snapshot_id) for version in versions.values()),
                "schemas": tuple(version_schema(version).schema_id for version in versions.values()),
                **({"empty": empty} if empty else {}),
            },
            requires=(
                TableIs(target, uuid),
                *(SnapshotKept(str(one.name), one.snapshot.snapshot_id) for one in versions.values()),
            ),
            estimate=Estimate(files=len(wanted)),
            files=FileList.of(
                PlannedFile(row.file_path, row.file_size, "data") for row in replaced if row.file_path is not None
            ),
        )


def _whole(numbers: Sequence[int], ranges: Ranges, replaced: Sequence[PartitionRow]) -> int:
    """How many partitions the next action writes. If it ended within one that it replaces, it would leave a hole."""
    size = min(_MOST, len(numbers))
    while size < len(numbers):
        until = ranges.of(numbers[size - 1])[1]
        if not any(row.begin_insert_time < until < row.end_insert_time for row in replaced):
            break
        size += 1
    return size


def _wanted(action: Action, view: ViewSet, versions: Mapping[str, Resolved]) -> Wanted:
    numbers = [int(number) for number in action.texts("numbers")]
    ranges = Ranges(
        from_micros(action.number("begin")),
        timedelta(microseconds=action.number("delta")),
        max(numbers) + 1,
    )
    digests = dict(zip(numbers, action.texts("digests"), strict=True))
    return Wanted(view, str(action.arguments["instance"]), ranges, digests, versions)


def _pinned(action: Action, lake: Reader) -> dict[str, Resolved]:
    """The versions that were planned, with the columns that they had then.

    If columns changed after the last commit before planning, only the head of main has them, as long as it stays there.
    """
    found = {}
    planned = (action.texts(name) for name in ("tables", "snapshots", "schemas"))
    for name, snapshot, schema in zip(*planned, strict=True):
        pinned = lake.tables.resolve(f"{name}@{snapshot}")
        if str(version_schema(pinned).schema_id) != schema:
            pinned = lake.tables.resolve(name)
        if (str(pinned.snapshot.snapshot_id), str(version_schema(pinned).schema_id)) != (snapshot, schema):
            raise StalePlan(
                f"the plan is stale: columns of {name} had changed before planning, and others committed to it since",
                "Nothing was written. Plan again.",
            )
        found[name] = pinned
    return found


def _moment(text: str, option: str) -> datetime:
    found = parse_time(text)
    if found is None:
        raise BadValue(f"--{option} {text} is not a time", "Write it as 2026-01-01 or 2026-01-01T06:00:00Z.")
    return found
