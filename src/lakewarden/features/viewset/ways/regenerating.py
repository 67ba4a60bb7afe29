"""Regenerates partitions wherever they lie: those of equal length that follow a common rhythm are one query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from lakewarden.features.viewset.definition import GLOBAL
from lakewarden.features.viewset.history import history_of
from lakewarden.features.viewset.regenerate import Regenerate
from lakewarden.features.viewset.writing import EMPTY, source_digests, source_of

if TYPE_CHECKING:
    from lakewarden.engine.catalog.tables import Resolved
    from lakewarden.engine.sql.queries import Ranges
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.features.viewset.ways.incompatible_partitions import Partition
    from lakewarden.lifecycle.action import Action
    from lakewarden.lifecycle.ground import Reader

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Regeneration:
    """What can be regenerated of some partitions."""

    actions: tuple[Action, ...]
    gone: tuple[Partition, ...]
    """The source has none of their rows any more."""
    changed: int
    """How many have another source by now, as far as it is known."""


def regeneration(lake: Reader, view: ViewSet, partitions: Sequence[Partition]) -> Regeneration:
    parts = [_of_grid(lake, view, some) for some in _grids(partitions)]
    return Regeneration(
        tuple(action for part in parts for action in part.actions),
        tuple(one for part in parts for one in part.gone),
        sum(part.changed for part in parts),
    )


def _grids(partitions: Sequence[Partition]) -> list[list[Partition]]:
    found: dict[tuple[str, timedelta, timedelta], list[Partition]] = {}
    for one in partitions:
        length = one.end - one.begin
        found.setdefault((one.instance, length, (one.begin - _EPOCH) % length), []).append(one)
    return [some for _, some in sorted(found.items())]


def _of_grid(lake: Reader, view: ViewSet, partitions: Sequence[Partition]) -> Regeneration:
    if partitions[0].instance != GLOBAL and view.definition.instances is None:
        return Regeneration((), tuple(partitions), 0)  # the view set has no such instance any more
    begin, end = min(one.begin for one in partitions), max(one.end for one in partitions)
    request = Regenerate(
        name=view.name,
        begin=begin.isoformat(),
        end=end.isoformat(),
        delta=partitions[0].end - partitions[0].begin,
        instance=partitions[0].instance,
    )
    ranges = request.ranges()
    digests, versions = request.digests(lake, view, ranges)
    numbers = {(one.begin - begin) // ranges.delta: one for one in partitions}
    gone = {number for number, one in numbers.items() if one.num_rows and digests[number] == EMPTY}
    wanted = {number: digests[number] for number in sorted(numbers) if number not in gone}
    replaced = [row for number in wanted for row in numbers[number].rows]
    return Regeneration(
        request.planned(view, versions, ranges, wanted, replaced).actions if wanted else (),
        tuple(numbers[number] for number in sorted(gone)),
        _changed(lake, view, request, ranges, versions, {number: numbers[number] for number in wanted}),
    )


def _changed(
    lake: Reader,
    view: ViewSet,
    request: Regenerate,
    ranges: Ranges,
    versions: Mapping[str, Resolved],
    partitions: Mapping[int, Partition],
) -> int:
    """How many partitions were made of other source rows than there are now, as the SQL of that time saw them."""
    hashes = {one.schema_hash for one in partitions.values()}
    history, source = history_of(view.table.metadata.properties) or {}, source_of(view, request.instance, versions)
    changed = 0
    for schema_hash in sorted(hashes & history.keys()):
        before = replace(view, definition=history[schema_hash][-1].definition)
        then = source_digests(lake, before, source, ranges)
        changed += sum(
            one.source_hashes != {then[number]} for number, one in partitions.items() if one.schema_hash == schema_hash
        )
    return changed
