"""A walk over a backfill: its source and its target are changed by others between all of its steps.

The model knows for every snapshot of the target which rows of the backfill it has, which are left of the run that wrote
them, and which version of the source that run reads. So a rollback by others is a step back in the model too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from lakewarden.errors import LakewardenError
from tests.features.backfill.shop import TOTALS, Shop
from tests.walks.others import Others

Row = tuple[int, int]
"""What the SQL makes of an order: its id, and cents that its amount and region give."""
Rows = Counter[Row]
REGIONS = {None: 0, "north": 1, "south": 2}
SIZE = 3
_LOG = 100
"""As many metadata files does a table's log have at most, unless it is told otherwise."""
SQL = """INSERT INTO {db}.totals (id, cents)
SELECT id, CAST(amount * 100 AS BIGINT) + CASE region WHEN 'north' THEN 1 WHEN 'south' THEN 2 ELSE 0 END
FROM {db}.orders WHERE id > {checkpoint_id} ORDER BY id LIMIT {batch_size}
"""


@dataclass(frozen=True)
class Source:
    """What one snapshot of the source has, read with the columns of its commit."""

    orders: Counter[tuple[int, float, str | None]] = field(default_factory=Counter)
    """By id, amount and region."""
    region: int | None = None
    """The field id of the region: it is another one once others have dropped the column and added it again."""

    def read_with(self, region: int | None) -> Source:
        """The same orders with the columns of a later schema."""
        if region == self.region:
            return self
        orders = Counter[tuple[int, float, str | None]]()
        for (id, amount, _), count in self.orders.items():
            orders[(id, amount, None)] += count
        return Source(orders, region)

    @property
    def rows(self) -> Rows:
        found = Rows()
        for (id, amount, region), count in self.orders.items():
            found[(id, round(amount * 100) + REGIONS[region])] += count
        return found

    def since(self, before: Source) -> Rows:
        """What is new in it, by the columns that it has."""
        return self.rows - before.read_with(self.region).rows


@dataclass(frozen=True)
class Target:
    """What one snapshot of the target has."""

    written: Rows = field(default_factory=Counter)
    foreign: frozenset[int] = frozenset()
    left: Rows | None = None
    """Of a run: rows that it has not written. None before the first run, and after an undo."""
    reads: int | None = None
    """The snapshot of the source that the last run reads, or has read."""
    since: int | None = None
    """And the one whose rows it leaves out."""

    @property
    def is_complete(self) -> bool:
        return self.left is not None and not self.left


class BackfillWalk:
    """One backfill and its tables, and what must be in them."""

    def __init__(self, shop: Shop, chance: random.Random) -> None:
        self.shop, self.chance = shop, chance
        self.source, self.target = Others(shop.lake, "shop.orders"), Others(shop.lake, "shop.totals")
        self.targets: dict[int | None, Target] = {None: Target()}
        self.sources: dict[int | None, Source] = {None: Source()}
        self.tally: Counter[str] = Counter()
        self._next_id = 0
        self._is_rolled_back = False
        self.source.sql("ALTER TABLE {t} ADD COLUMN unread STRING")
        shop.register(SQL, batch_size=SIZE)

    def round(self) -> str:
        """Others do something, then Lakewarden does; answers with what they did."""
        done = []
        for _ in range(self.chance.choice((1, 1, 2))):
            step: Callable[[], None] = self.chance.choices(
                (
                    self._order,
                    self._change,
                    self._expire,
                    self._roll_back,
                    self._rewrite,
                    self._alter,
                    self._add_foreign,
                ),
                (6, 3, 3, 2, 3, 2, 1),
            )[0]
            step()
            done.append(step.__name__.strip("_"))
        own = self.chance.choices((self._run, self._undo, self._upkeep, self._lose), (8, 2, 2, 1))[0]
        done.append(f"then {own()}")
        self.check(" ".join(done))
        return " ".join(done)

    def check(self, why: str) -> None:
        """The target has the rows that it must have, and its status does not promise others."""
        now, (found, foreign) = self.now, self._found()
        assert found == now.written, f"{why}: {found - now.written} too much, {now.written - found} missing"
        assert foreign == now.foreign, why
        status = self.shop.status()
        if status.status == "completed":
            assert now.is_complete, f"{why}: {status} but {now}"
            if status.late_rows is not None and now.reads in self.sources:
                late = self.sources[self.source.head].since(self.sources[now.reads]).total()
                assert status.late_rows == late, f"{why}: {status.late_rows} late rows, not {late}"

    @property
    def now(self) -> Target:
        return self.targets[self.target.head]

    # what others do

    def _order(self) -> None:
        orders, new = self._orders(), Counter[tuple[int, float, str | None]]()
        for _ in range(self.chance.randint(1, 7)):
            self._next_id += 1
            new[(self._next_id, self.chance.choice((1.5, 2.0, -0.5)), "north")] += self.chance.choice((1, 1, 1, 2))
        values = ", ".join(f"('{region}', {id}, {amount})" for id, amount, region in new.elements())
        self.source.sql(f"INSERT INTO {{t}} (region, id, amount) VALUES {values}")
        self.sources[self.source.head] = Source(orders + new, self._region())

    def _change(self) -> None:
        before = self._orders()
        if not before:
            return self._order()
        row = self.chance.choice(sorted({id for id, _, _ in before}))
        after = Counter({each: count for each, count in before.items() if each[0] != row})
        same = {each: count for each, count in before.items() if each[0] == row}
        match self.chance.choice(("amount", "region", "unread", "delete")):
            case "amount":
                self.source.sql(f"UPDATE {{t}} SET amount = amount + 1 WHERE id = {row}")
                same = {(id, amount + 1, region): count for (id, amount, region), count in same.items()}
            case "region":
                self.source.sql(f"UPDATE {{t}} SET region = 'south' WHERE id = {row}")
                same = {(id, amount, "south"): count for (id, amount, _), count in same.items()}
            case "unread":
                self.source.sql(f"UPDATE {{t}} SET unread = 'changed' WHERE id = {row}")
            case _:
                self.source.sql(f"DELETE FROM {{t}} WHERE id = {row}")
                same = {}
        after.update(same)
        self.sources[self.source.head] = Source(after, self._region())

    def _expire(self) -> None:
        for table in self._some():
            table.expire()

    def _roll_back(self) -> None:
        for table in self._some():
            others = [id for id in table.snapshots() if id != table.head]
            if others:
                table.roll_back(self.chance.choice(others[-4:]))
                self._is_rolled_back = self._is_rolled_back or table is self.target

    def _rewrite(self) -> None:
        for table in self._some():
            before = table.head
            self.chance.choice((table.compact, table.compact, table.merge_manifests))()
            self._same(table, before)

    def _alter(self) -> None:
        match self.chance.choice(("source", "source", "target", "rename", "upgrade")):
            case "source":
                self.source.drop_and_add("region", self.chance.choice(("STRING", "INT")))
                if self._is_int("region"):
                    self.source.drop_and_add("region", "STRING")
            case "target":
                self.target.drop_and_add("region", "STRING")
            case "rename":
                self.source.sql("ALTER TABLE {t} ADD COLUMN extra INT")
                self.source.sql("ALTER TABLE {t} RENAME COLUMN extra TO once")
                self.source.sql("ALTER TABLE {t} DROP COLUMN once")
            case _:
                if self.chance.random() < 0.3:
                    self.source.upgrade()

    def _add_foreign(self) -> None:
        before = self.now
        id = -len(before.foreign) - 1
        self.target.sql(f"INSERT INTO {{t}} (id, cents) VALUES ({id}, 0)")
        self.targets[self.target.head] = replace(before, foreign=before.foreign | {id})

    # what Lakewarden does

    def _run(self) -> str:
        now, again = self.now, self.chance.random() < 0.5
        most = self.chance.choice((None, None, 1, 2))
        left, reads, since = now.left, now.reads, now.since
        if left is None or (now.is_complete and again):
            left, reads, since = self.sources[self.source.head].rows, self.source.head, None
            if now.left is not None:
                left, since = self.sources[self.source.head].since(self.sources[now.reads]), now.reads
        excuses, head = self._excuses(now, again), self.target.head
        try:
            self.shop.run(again=again, max_batches=most)
        except LakewardenError as error:
            if not any(excuse in error.message for excuse in excuses):
                raise AssertionError(
                    f"refused for another reason than {excuses}, again: {again}, {now}: {error}"
                ) from error
            self.tally["run refused"] += 1
            return f"run (again: {again}, most: {most}) refused: {error}, then {self._as_told(error.message)}"
        if not again or self.target.head != head:
            self._is_rolled_back = False
        written = self._found()[0] - now.written
        if now.is_complete and not again:
            left, reads, since = now.left, now.reads, now.since
        assert left is not None
        self._check_batches(written, left, most)
        for snapshot in self.target.snapshots():
            if snapshot not in self.targets:
                so_far = self._found(snapshot)[0] - now.written
                self.targets[snapshot] = replace(
                    now, written=now.written + so_far, left=left - so_far, reads=reads, since=since
                )
        self.tally["run"] += bool(written)
        return f"run (again: {again}, most: {most}) wrote {sorted(written.elements())}"

    def _check_batches(self, written: Rows, left: Rows, most: int | None) -> None:
        """The first rows that were left, in their order, rows with the same id together."""
        reached = max((id for id, _ in written), default=0)
        assert written == Counter({row: count for row, count in left.items() if row[0] <= reached}), (written, left)
        if most is None:
            assert written == left, f"{left - written} are left although it ran to its end"
        elif left:
            assert written, "nothing was written"

    def _excuses(self, now: Target, again: bool) -> list[str]:
        """Why a run may be refused."""
        excuses, there = [], {None, *self.source.snapshots()}
        if len(self.target.metadata.metadata_log) >= _LOG:
            excuses.append("it is not known whether")
        if self._is_rolled_back and not again:
            excuses.append("was rolled back behind")
        begins = now.left is None or (now.is_complete and again)
        if begins and self.source.head is not None and self.sources[self.source.head].region != self._region():
            excuses.append("column region changed after its last commit")
        needed = {now.reads} if now.is_complete else {now.reads, now.since}
        if now.left is not None and not needed <= there and (again or not now.is_complete):
            excuses.append("a version that backfill shop_003 has read is gone")
        return excuses

    def _undo(self) -> str:
        now, head = self.now, self.target.head
        try:
            self.shop.warden.backfill.undo(database="shop", version="3").apply()
        except LakewardenError as error:
            self.tally["undo refused"] += 1
            return f"undo refused: {error}"
        if now.written or now.left is not None:
            self.tally["undo"] += 1
        if self.target.head != head:
            self._is_rolled_back = False
        self.targets[self.target.head] = Target(foreign=now.foreign)
        return "undo"

    def _as_told(self, message: str) -> str:
        """What a refused run says is to be done."""
        if "was rolled back behind" in message:
            return "nothing"
        if "changed after its last commit" in message:
            self._order()
            return "order"
        return self._begin_again()

    def _begin_again(self) -> str:
        """What the error says: undo, or else write to another table."""
        done = self._undo()
        if "refused" not in done:
            return done
        self.target.sql("DROP TABLE {t} PURGE")
        self.shop.lake.catalog.create_table(self.target.table, TOTALS)
        self.targets, self._is_rolled_back = {None: Target()}, False
        self.tally["began again"] += 1
        return "made the target anew"

    def _upkeep(self) -> str:
        before = {table.table: table.head for table in (self.source, self.target)}
        name = self.chance.choice(list(before))
        what = self.chance.choice(("expire", "compact"))
        try:
            if what == "expire":
                self.shop.warden.retention.expire(name, keep_last=1, keep_days=0).apply()
            else:
                self.shop.warden.compaction.compact(name, rewrite_all=True).apply()
        except LakewardenError as error:
            self.tally["upkeep refused"] += 1
            return f"{what} {name} refused: {error}"
        self.tally[what] += 1
        for table in (self.source, self.target):
            self._same(table, before[table.table])
        return f"{what} {name}"

    def _lose(self) -> str:
        self.shop.lose_control_database()
        return "lost the control database"

    # how it is seen

    def _found(self, snapshot: int | None = None) -> tuple[Rows, frozenset[int]]:
        """The rows of the target, or of a version of it, as anybody's Spark sees them."""
        version = "" if snapshot is None else f" VERSION AS OF {snapshot}"
        rows = [(row["id"], row["cents"]) for row in self.target.sql("SELECT id, cents FROM {t}" + version)]
        return (
            Counter((id, cents) for id, cents in rows if id > 0),
            frozenset(id for id, _ in rows if id < 0),
        )

    def _some(self) -> list[Others]:
        return self.chance.choice(([self.source], [self.target], [self.target], [self.source, self.target]))

    def _same(self, table: Others, before: int | None) -> None:
        """A commit that changed no row."""
        if table is self.target:
            self.targets[table.head] = self.targets[before]
        elif table.head != before:
            self.sources[table.head] = self.sources[before].read_with(self._region())

    def _orders(self) -> Counter[tuple[int, float, str | None]]:
        """The orders as everybody sees them now."""
        return self.sources[self.source.head].read_with(self._region()).orders

    def _region(self) -> int:
        found: int = self._schema().find_field("region").field_id
        return found

    def _is_int(self, column: str) -> bool:
        return str(self._schema().find_field(column).field_type) == "int"

    def _schema(self) -> Any:
        return self.shop.lake.catalog.load_table(self.source.table).schema()
