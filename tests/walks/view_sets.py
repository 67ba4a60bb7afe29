"""A walk over a view set: its table and its source are changed by others between all of its steps.

The model knows which rows were written into a partition, by its hour, its schema hash and the digest of its source.
What Lakewarden's readers see as current must be exactly that, whatever others did to files, snapshots and columns.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import datetime, timedelta
from typing import Any

import pytest

from lakewarden.engine.catalog.snapshots import operation_of
from lakewarden.errors import Conflict, LakewardenError, NotFound
from tests.features.viewset.logs import DAY, RANGE, Logs
from tests.walks.others import Others

HOURS, BLOCK = 6, 2
SCHEMAS = {
    "level": f"SELECT time, process_id, level, msg FROM raw.logs WHERE {RANGE}",
    "no level": f"SELECT time, process_id, msg FROM raw.logs WHERE {RANGE}",
    "long level": f"SELECT time, process_id, CAST(level AS BIGINT) AS level, msg FROM raw.logs WHERE {RANGE}",
}
REFUSED = re.compile(r"in format v3, in which partitions of view sets can only be added|has expired")
"""What Lakewarden may refuse, after what others did."""
COLUMNS_CHANGED, COLUMNS_UNKNOWN = "its columns change with its definition only", "does not record which columns"
"""Why a version's columns are not restored."""
Entry = tuple[str, int | None]
"""A message and its level."""
Entries = Counter[Entry]
Written = tuple[int, str, str]
"""A partition's hour, its schema hash as it is stored, and the digest of its source."""


class ViewSetWalk:
    """One view set and its source, and what must be in its partitions."""

    def __init__(self, logs: Logs, chance: random.Random) -> None:
        self.logs, self.chance = logs, chance
        self.source, self.view = Others(logs.lake, "raw.logs"), Others(logs.lake, "viewsets.entries")
        self.written: dict[Written, list[Entries]] = {}
        """What may be in a partition: after a rollback it may be what it was before it was healed."""
        self.with_level: dict[str, bool] = {}
        """By schema hash, whether its partitions have levels."""
        self.tally: Counter[str] = Counter()
        self._minute = 0
        self._retired: str | None = None
        for _ in range(3):
            self._insert()
        self._current = ""
        self._register("level")
        for block in range(HOURS // BLOCK):
            self._write(logs.viewset.materialize, block)

    def round(self) -> str:
        """Others do something, then Lakewarden does; answers with what they did."""
        done = []
        for _ in range(self.chance.choice((1, 1, 2))):
            step: Callable[[], None] = self.chance.choices(
                (self._insert, self._delete, self._expire, self._roll_back, self._rewrite, self._alter),
                (4, 1, 3, 2, 4, 1),
            )[0]
            step()
            done.append(step.__name__.strip("_"))
        own: Callable[[], str] = self.chance.choices(
            (
                self._define,
                self._materialize,
                self._regenerate,
                self._retire,
                self._restore,
                self._heal,
                self._upkeep,
                self._roll_back_with_schema,
            ),
            (6, 4, 1, 1, 1, 1, 3, 2),
        )[0]
        try:
            did = own()
            self.tally[own.__name__.strip("_")] += 1
        except LakewardenError as error:
            if not REFUSED.search(str(error)):
                raise
            did = f"{own.__name__.strip('_')} refused: {error}"
            self.tally[f"{own.__name__.strip('_')} refused"] += 1
        done.append(f"then {did}")
        self.check(" ".join(done))
        return " ".join(done)

    def check(self, why: str) -> None:
        """Readers see every hour once, with exactly the rows and levels that were written into it."""
        is_level = "level" in {field.name for field in self._schema().fields}
        for hour, partitions in self._seen(is_level).items():
            assert len(partitions) == 1, f"{why}: hour {hour} is there {len(partitions)} times: {partitions}"
            (key, found), *_ = partitions.items()
            has_level = is_level and self.with_level[key[1]]
            wanted = [some if has_level else _without_level(some) for some in self.written[key]]
            assert found in wanted, f"{why}: hour {hour}: {found}, not {wanted}"

    # what others do

    def _insert(self) -> None:
        rows = []
        for _ in range(self.chance.randint(1, 5)):
            self._minute += 1
            at = f"TIMESTAMP '{DAY + timedelta(minutes=self.chance.randrange(60 * HOURS)):%Y-%m-%d %H:%M}:00 UTC'"
            rows.append(f"({at}, {at}, 'p1', {self.chance.randint(1, 9)}, 'm{self._minute}')")
        self.source.sql(f"INSERT INTO {{t}} (inserted_at, time, process_id, level, msg) VALUES {', '.join(rows)}")

    def _delete(self) -> None:
        self.source.sql(f"DELETE FROM {{t}} WHERE msg = 'm{self.chance.randint(1, self._minute)}'")

    def _expire(self) -> None:
        self.chance.choice((self.source, self.view, self.view)).expire(clean=self.chance.random() < 0.3)

    def _roll_back(self) -> None:
        table = self.chance.choice((self.source, self.view, self.view))
        others = [id for id in table.snapshots() if id != table.head]
        if others:
            table.roll_back(self.chance.choice(others[-4:]))

    def _rewrite(self) -> None:
        table = self.chance.choice((self.source, self.view, self.view))
        self.chance.choice((table.compact, table.compact, table.merge_manifests))()

    def _alter(self) -> None:
        match self.chance.choice(("level", "level of the view", "other", "other", "upgrade")):
            case "level":
                self.source.drop_and_add("level", "INT")
            case "level of the view":
                self._alter_view()
            case "other":
                self.source.sql("ALTER TABLE {t} ADD COLUMN extra STRING")
                self.source.sql("ALTER TABLE {t} DROP COLUMN extra")
            case _:
                if self.chance.random() < 0.3:
                    self.chance.choice((self.source, self.view)).upgrade()

    def _alter_view(self) -> None:
        kind = next((str(field.field_type) for field in self._schema().fields if field.name == "level"), None)
        if kind is not None:
            self.view.drop_and_add("level", {"int": "INT", "long": "BIGINT"}[kind])
            self._know()

    # what Lakewarden does

    def _define(self) -> str:
        others = [name for name in ("level", "level", "no level", "no level", "long level") if name != self._current]
        return self._register(self.chance.choice(others))

    def _register(self, schema: str) -> str:
        self.logs.define(SCHEMAS[schema])
        self._current = schema
        self._know()
        return f"register {schema}"

    def _know(self) -> None:
        """Partitions with the current hash have levels if the SQL has."""
        self.with_level[self.logs.viewset.show("entries").current_schema_hash] = self._current != "no level"

    def _materialize(self) -> str:
        return self._write(self.logs.viewset.materialize, self.chance.randrange(HOURS // BLOCK))

    def _regenerate(self) -> str:
        return self._write(self.logs.viewset.regenerate, self.chance.randrange(HOURS // BLOCK))

    def _write(self, verb: Any, block: int) -> str:
        begin, end = (DAY + timedelta(hours=hour) for hour in (block * BLOCK, (block + 1) * BLOCK))
        wanted = self._source()
        verb("entries", begin=begin.isoformat(), end=end.isoformat(), delta="1h").apply()
        self._note(wanted)
        seen = {hour: next(iter(some.values())) for hour, some in self._seen(False).items()}
        for hour in range(block * BLOCK, (block + 1) * BLOCK):
            found = Counter(msg for msg, _ in seen.get(hour, Counter()).elements())
            assert found == Counter(msg for msg, _ in wanted.get(hour, Counter()).elements()), f"hour {hour}"
        return f"write block {block}"

    def _retire(self) -> str:
        planned = self.logs.viewset.retire("entries", incompatible=True)
        if not planned.is_empty:
            self._retired = planned.apply().id
        assert self.logs.viewset.incompatible("entries") == []
        return "retire"

    def _restore(self) -> str:
        if self._retired is None:
            return "nothing to restore"
        operation, self._retired = self._retired, None
        is_gone = all(operation_of(snapshot) != operation for snapshot in self.view.metadata.snapshots)
        with suppress(NotFound) if is_gone else nullcontext():  # it may have retired partitions without rows only
            self.logs.viewset.restore(operation).apply()
        return "restore what has expired" if is_gone else "restore"

    def _heal(self) -> str:
        wanted, before = self._source(), self._stored()
        self.logs.viewset.heal("entries").apply()
        for key in self._stored() - before:
            same = [former for former in before if (former[0], former[2]) == (key[0], key[2])]
            kept = [
                some if self.with_level[former[1]] else _without_level(some)
                for former in same
                for some in self.written[former]
            ]
            self.written.setdefault(key, []).extend(kept or [wanted.get(key[0], Counter())])
        return "heal"

    def _upkeep(self) -> str:
        name = self.chance.choice((self.source.table, self.view.table, self.view.table))
        if self.chance.random() < 0.5:
            self.logs.lake.warden.retention.expire(name, keep_last=1, keep_days=0).apply()
            return f"expire {name}"
        self.logs.lake.warden.compaction.compact(name, rewrite_all=True).apply()
        return f"compact {name}"

    def _roll_back_with_schema(self) -> str:
        """To a version with the same columns, or it is refused: no column comes back without its definition."""
        metadata = self.view.metadata
        versions = [one for one in metadata.snapshots if one.snapshot_id != metadata.current_snapshot_id][-4:]
        if self.view.head is None or not versions:
            return "nothing to roll back to"
        version = self.chance.choice(versions)
        then = next((one for one in metadata.schemas if one.schema_id == version.schema_id), None)
        why_not = "" if then == self._schema() else COLUMNS_CHANGED if then is not None else COLUMNS_UNKNOWN
        name, before = f"{self.view.table}@{version.snapshot_id}", self._stored()

        def roll_back() -> None:
            self.logs.lake.warden.version.rollback(name, not_ancestor=True, with_schema=True).apply()

        if why_not:
            with pytest.raises(Conflict, match=why_not):
                roll_back()
            assert (self.view.head, self._stored()) == (metadata.current_snapshot_id, before)
            return f"roll back with schema refused: {why_not}"
        roll_back()
        assert self.view.head == version.snapshot_id
        return "roll back with schema"

    # how it is seen

    def _source(self) -> dict[int, Entries]:
        """The entries of the source by hour, as anybody's Spark sees them."""
        found: dict[int, Entries] = {}
        for row in self.source.sql("SELECT unix_timestamp(inserted_at) AS at, level, msg FROM {t}"):
            found.setdefault(_hour(row["at"]), Counter())[(row["msg"], row["level"])] += 1
        return found

    def _note(self, wanted: dict[int, Entries]) -> None:
        """Remember what was written into partitions that are new."""
        for key in self._stored():
            self.written.setdefault(key, [wanted.get(key[0], Counter())])

    def _stored(self) -> set[Written]:
        """The partitions with rows, whatever their schema, as anybody's Spark sees them."""
        columns = "unix_timestamp(begin_insert_time) AS at, file_schema_hash, source_data_hash"
        rows = self.view.sql(f"SELECT DISTINCT {columns} FROM {{t}}")
        return {(_hour(row["at"]), row["file_schema_hash"], row["source_data_hash"]) for row in rows}

    def _seen(self, is_level: bool) -> dict[int, dict[Written, Entries]]:
        """By hour, the partitions with rows that Lakewarden's readers see."""
        columns = ["begin_insert_time", "file_schema_hash", "source_data_hash", "msg", *(["level"] if is_level else [])]
        found: dict[int, dict[Written, Entries]] = {}
        if self.view.head is None:
            return found
        for row in self.logs.lake.warden.version.read("viewsets.entries", columns=columns):
            begin: datetime = row["begin_insert_time"]
            hour = (begin - DAY) // timedelta(hours=1)
            key = (hour, row["file_schema_hash"], row["source_data_hash"])
            found.setdefault(hour, {}).setdefault(key, Counter())[(row["msg"], row.get("level"))] += 1
        return found

    def _schema(self) -> Any:
        return self.logs.lake.catalog.load_table(self.view.table).schema()


def _hour(seconds: int) -> int:
    return int(seconds - DAY.timestamp()) // 3600


def _without_level(entries: Entries) -> Entries:
    return Counter((msg, None) for msg, _ in entries.elements())
