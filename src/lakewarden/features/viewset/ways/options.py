"""Ways to heal the partitions of a former schema: which are possible, what each costs, and the cheapest.

Estimates come from metadata: the bytes of the partitions, and of the source files that may hold rows of their time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from lakewarden.errors import NotFound
from lakewarden.features.viewset.definition import columns_with_ids, inner_ids
from lakewarden.features.viewset.history import Former, history_of, reads_of
from lakewarden.features.viewset.ways.transition import Transition, transition
from lakewarden.lifecycle.action import Estimate
from lakewarden.quantities import show_size

if TYPE_CHECKING:
    from lakewarden.features.viewset.definition import ViewSet
    from lakewarden.features.viewset.ways.incompatible_partitions import Partition
    from lakewarden.lifecycle.ground import Reader

Way = Literal["keep", "rewrite", "regenerate", "retire"]
WAYS: tuple[Way, ...] = get_args(Way)
_REWRITE_SECONDS_PER_GB = 15  # guesses, for estimates only
_REGENERATE_SECONDS_PER_GB = 30
_SPARK_SECONDS = 10  # to start it, and to plan a query


@dataclass(frozen=True)
class Option:
    """One way to heal some partitions."""

    way: Way
    estimate: Estimate = field(default_factory=Estimate)
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"{self.way} is not possible ({self.why_not})"
        if not self.estimate.bytes:
            return f"{self.way} (metadata only)"
        verb = "reads" if self.way == "regenerate" else "rewrites"
        return f"{self.way} ({verb} {show_size(self.estimate.bytes)}, about {self.estimate.seconds:.0f} s)"


@dataclass(frozen=True)
class Group:
    """The partitions of one former schema that are to be healed, and the ways to do it."""

    schema_hash: str
    partitions: Sequence[Partition]
    change: Transition
    options: Sequence[Option]
    has_deletes: bool = False
    """Whether rows of their files were deleted or hidden."""

    def possible(self, only: Collection[Way]) -> list[Way]:
        """The ways that may be taken, the cheapest first; of equal ones, the one that needs no source.

        Retiring loses rows, so it is the last.
        """
        open_ = [one for one in self.options if one.way in only and not one.why_not]
        return [one.way for one in sorted(open_, key=lambda one: (one.way == "retire", one.estimate.seconds))]

    def estimate(self, way: Way) -> Estimate:
        return next(one.estimate for one in self.options if one.way == way)


def transitions(lake: Reader, view: ViewSet, hashes: Collection[str]) -> dict[str, Transition]:
    """How the current schema reads rows of each of some former ones."""
    history = history_of(view.table.metadata.properties) or {}
    try:
        reads = reads_of(lake, view.definition)
    except NotFound:  # the source is gone: what it was like when it was registered
        reads = history[view.schema_hash][-1].reads if view.schema_hash in history else {}
    schema = view.table.schema()
    columns, inner = columns_with_ids(schema), inner_ids(schema)
    now = Former(definition=view.definition, columns=columns, reads=reads, inner=inner)
    return {one: transition(history.get(one), now) for one in hashes}


def rank(change: Transition) -> int:
    """The order in which partitions are preferred that share their time: those that can stay as they are first."""
    return 0 if change.reads_as_it_is else 1 if not change.why_not else 2


def group(
    lake: Reader, view: ViewSet, change: Transition, partitions: Sequence[Partition], overlapping: bool, deleted: bool
) -> Group:
    """The ways for the partitions of one former schema.

    `overlapping`: others of the same schema cannot be healed, so that the schema as a whole cannot be kept. `deleted`:
    rows of their files are deleted or hidden, which a withdrawal may have to restore.
    """
    size, rows = sum(one.bytes for one in partitions), sum(one.num_rows for one in partitions)
    files = sum(len(one.rows) for one in partitions)
    keep = "" if change.reads_as_it_is else change.why_not or "columns were renamed or added again"
    if not keep and overlapping:
        keep = "others of this schema overlap with current partitions"
    rewrite = change.why_not or ("rows of its files were deleted or hidden" if deleted else _erasure_needs(lake, view))
    seconds = _SPARK_SECONDS + size / (1 << 30) * _REWRITE_SECONDS_PER_GB
    return Group(
        partitions[0].schema_hash,
        partitions,
        change,
        (
            Option("keep", why_not=keep),
            Option("rewrite", Estimate(files, size, rows, round(seconds, 1)), rewrite),
            _regenerate(lake, view, partitions),
            Option("retire"),
        ),
        deleted,
    )


def _erasure_needs(lake: Reader, view: ViewSet) -> str:
    """Why files are not rewritten: a rewrite drops former columns, and only these may show whom a row belongs to."""
    schema, uuid = view.table.schema(), str(view.table.metadata.table_uuid)
    former = any(key.values and not schema.find_column_name(key.field_id) for key in lake.state.erasure.hidden(uuid))
    return "an open erasure request covers rows by a column that was dropped: purge them first" if former else ""


def _regenerate(lake: Reader, view: ViewSet, partitions: Sequence[Partition]) -> Option:
    """What the source has of the time of some partitions, judged by the bounds of its files."""
    given = view.definition
    column = given.insert_time.replace('"', '""')
    try:
        version = lake.tables.resolve(given.source)
    except NotFound as error:
        return Option("regenerate", why_not=error.message)
    begin, end = min(one.begin for one in partitions), max(one.end for one in partitions)
    kinds = {field.name: str(field.field_type) for field in version.table.schema().fields}
    if given.insert_time not in kinds:
        return Option("regenerate", why_not=f"{given.source} has no column {given.insert_time} any more")
    if kinds[given.insert_time] == "timestamp":  # without zone
        begin, end = begin.replace(tzinfo=None), end.replace(tzinfo=None)
    where = f"\"{column}\" >= '{begin.isoformat()}' AND \"{column}\" < '{end.isoformat()}'"
    near = lake.rows.files_of(version, where)
    live = lake.files.of(version.table, version.snapshot).by_path
    size = sum(live[path].bytes for path in near if path in live) * len({one.instance for one in partitions})
    if not near:
        return Option("regenerate", why_not=f"{given.source} has no rows of that time any more")
    seconds = _SPARK_SECONDS + size / (1 << 30) * _REGENERATE_SECONDS_PER_GB
    rows = sum(one.num_rows for one in partitions)
    return Option("regenerate", Estimate(len(partitions), size, rows, round(seconds, 1)))
