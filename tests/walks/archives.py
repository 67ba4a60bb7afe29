"""A walk over the archive of a database table: others change the archive and the database between all of its steps.

The model knows every row, wherever it is. `sequence read` must show exactly these, each once, or refuse; it may refuse
only if others took archived rows away, and names these partitions then.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable

from lakewarden.errors import LakewardenError
from lakewarden.lifecycle import failpoints
from tests.features.sequence.old_orders import OldOrders
from tests.walks.others import Others

PARTITIONS, ROWS = 10, 12
Shown = dict[int, str]
"""The customer by the id of an order."""
REFUSED = {
    "archive": ("is in format v3", "meanwhile", "changed while it was copied", "no longer has rows"),
    "again": ("is in format v3", "meanwhile", "changed while it was copied", "no longer has rows"),
    "drop": ("differs from its archive", "is not archived in", "others rolled it back", "got new rows since"),
    "restore": (),
    "upkeep": ("the plan is stale",),
}
"""Of each thing that Lakewarden does, why it may be refused."""
WITHIN = ("sequence.staged", "commit.ready", "sequence.exchanged", "sequence.compared", "sequence.removed")


class ArchiveWalk:
    """One database table and its archive, and what must be in both together."""

    def __init__(self, orders: OldOrders, chance: random.Random) -> None:
        self.orders, self.chance = orders, chance
        self.archive = Others(orders.lake, "archive.orders")
        self.tally: Counter[str] = Counter()
        self._taken_away = False
        """Others rolled the archive back: rows that are in no other place may be gone."""
        bounds = [
            f"PARTITION p_{2026 + place // 12}{place % 12 + 1:02d}01 VALUES LESS THAN ({(place + 1) * ROWS})"
            for place in range(PARTITIONS)
        ]
        orders.shop.run(
            "DELETE FROM orders",
            "ALTER TABLE orders PARTITION BY RANGE (id) "
            f"({', '.join(bounds)}, PARTITION p_20991231 VALUES LESS THAN MAXVALUE)",
            "INSERT INTO orders (id, ordered, customer, amount) SELECT seq, '2026-01-01' + INTERVAL seq HOUR, "
            f"CONCAT('c', seq), seq FROM seq_1_to_{PARTITIONS * ROWS + 3}",
        )
        self.rows: Shown = {id: f"c{id}" for id in range(1, PARTITIONS * ROWS + 4)}

    def round(self) -> str:
        """Others do something, then Lakewarden does; answers with what they did."""
        steps: tuple[Callable[[], str], ...] = (
            *(self._change, self._insert, self._expire, self._rewrite, self._roll_back, self._alter, self._upgrade),
        )
        often, done = (3, 2, 5, 3, 1, 2, 0.1), list[str]()
        for _ in range(self.chance.choice((1, 1, 2))):
            done.append(self.chance.choices(steps, often)[0]())
        if self.chance.random() < 0.3:
            point, step = self.chance.choice(WITHIN), self.chance.choices(steps[2:5], (2, 2, 1))[0]
            failpoints.when(point, lambda: done.append(f"within, at {point}, {step()}"))
        own: Callable[[], str] = self.chance.choices(
            (self._archive, self._again, self._drop, self._restore, self._upkeep), (5, 2, 4, 2, 2)
        )[0]
        try:
            did = own()
            self.tally[did.split()[0]] += 1
        except LakewardenError as error:
            did = self._refused(own.__name__.strip("_"), error)
        failpoints.arm("")
        done.append(f"then {did}")
        self.check(" ".join(done))
        return " ".join(done)

    def _refused(self, what: str, error: LakewardenError) -> str:
        """Only for a reason that is known, and tells what is the case."""
        text = str(error)
        assert any(why in text for why in REFUSED[what]), f"{what} refused: {text}"
        why = "has ended" if "is in format v3" in text else "refused"
        self.tally[f"{what} {why}"] += 1
        return f"{what} refused: {text}"

    def check(self, why: str) -> None:
        """Every row is shown once, as it is now in the database, or as it was when its partition was archived."""
        try:
            found = [(int(row["id"]), str(row["customer"])) for row in self.orders.warden.sequence.read()]
        except LakewardenError as error:
            missing = re.search(
                r"no longer has the rows that were archived of \S+, partition (p_\d+(, p_\d+)*)", str(error)
            )
            if not self._taken_away or missing is None:
                raise AssertionError(f"{why}: nothing is missing, but read refuses") from error
            there = {*self.orders.partitions(), *(name.rpartition("__")[2] for name in self.orders.tables())}
            if there & {*missing[1].split(", ")}:
                raise AssertionError(f"{why}: the database has what read misses") from error
            self.tally["read refused"] += 1
            return
        shown = Counter(found)
        wanted = Counter(self.rows.items())
        assert shown == wanted, f"{why}: {shown - wanted} too much, {wanted - shown} missing"

    # what others do

    def _change(self) -> str:
        """Change a row that is still in the database: in an archived partition, its copy is then another."""
        ids = self.orders.ids()
        id = self.chance.choice(ids)
        self.rows[id] += "!"
        self.orders.shop.run(f"UPDATE orders SET customer = '{self.rows[id]}' WHERE id = {id}")
        return f"change {id}"

    def _insert(self) -> str:
        id = max(self.rows) + 1
        self.rows[id] = f"c{id}"
        self.orders.shop.run(f"INSERT INTO orders (id, ordered, customer) VALUES ({id}, NOW(), 'c{id}')")
        return f"insert {id}"

    def _expire(self) -> str:
        if self._is_there:
            self.archive.expire()
        return "expire"

    def _rewrite(self) -> str:
        if self._is_there:
            self.chance.choice((self.archive.compact, self.archive.compact, self.archive.merge_manifests))()
        return "rewrite"

    def _roll_back(self) -> str:
        others = [id for id in self.archive.snapshots() if id != self.archive.head] if self._is_there else []
        if not others:
            return "nothing to roll back to"
        self.archive.roll_back(self.chance.choice(others[-3:]))
        self._taken_away = True
        return "roll back"

    def _alter(self) -> str:
        if not self._is_there:
            return "nothing to alter"
        self.archive.drop_and_add("note", "STRING")
        return "drop and add a column"

    def _upgrade(self) -> str:
        if self._is_there:
            self.archive.upgrade()
        return "upgrade"

    # what Lakewarden does

    def _archive(self) -> str:
        some = [name for name in self.orders.partitions()[:-1] if self.chance.random() < 0.4]
        if not some:
            return "nothing to archive"
        self.orders.warden.sequence.archive(partition=some).apply()
        return f"archive {' '.join(some)}"

    def _again(self) -> str:
        self.orders.warden.sequence.archive(again=True).apply()
        return "again"

    def _drop(self) -> str:
        self.orders.warden.sequence.drop().apply()
        return "drop"

    def _restore(self) -> str:
        self.orders.warden.sequence.restore().apply()
        return "restore"

    def _upkeep(self) -> str:
        if not self._is_there:
            return "nothing to keep"
        if self.chance.random() < 0.5:
            self.orders.warden.retention.expire("archive.orders", keep_last=1, keep_days=0).apply()
            return "expire-own"
        self.orders.warden.compaction.compact("archive.orders", rewrite_all=True).apply()
        return "compact-own"

    @property
    def _is_there(self) -> bool:
        return bool(self.orders.lake.catalog.table_exists(self.archive.table)) and self.archive.head is not None
