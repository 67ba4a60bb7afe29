"""What an archive knows of its partitions while other engines expire its snapshots and roll it back."""

from __future__ import annotations

import pytest

from lakewarden.errors import Conflict
from tests.features.sequence.old_orders import EVERY, OldOrders
from tests.walks.others import Others, stop

pytestmark = pytest.mark.spark
FIRST, SECOND = "p_20260101", "p_20260201"


@pytest.fixture
def others(orders: OldOrders) -> Others:
    return Others(orders.lake, "archive.orders")


def drop(orders: OldOrders, *partitions: str) -> None:
    """Detach and drop."""
    orders.configure(grace="0s")
    for _ in range(2):
        orders.warden.sequence.drop(partition=[*partitions]).apply()


def forget(others: Others) -> None:
    """An archive as earlier versions wrote it: its stamps are in snapshots alone."""
    stamps = [key for key in others.metadata.properties if key.startswith("lakewarden.sequence.")]
    others.sql(f"ALTER TABLE {{t}} UNSET TBLPROPERTIES ({', '.join(map(repr, stamps))})")


def copies_of(orders: OldOrders) -> list[object]:
    return [action.arguments["partition"] for action in orders.warden.sequence.archive().plan.actions]


def test_others_expire_snapshots(archived: OldOrders, others: Others) -> None:
    drop(archived, FIRST, SECOND)
    others.expire()
    assert archived.all_ids() == EVERY
    assert archived.warden.sequence.archive().is_empty
    others.compact()
    others.expire()
    assert archived.all_ids() == EVERY


def test_others_expire_snapshots_that_alone_had_stamps(archived: OldOrders, others: Others) -> None:
    """What has no stamp is read, and copied again as long as the database has the same rows."""
    drop(archived, FIRST)
    forget(others)
    assert archived.all_ids() == EVERY
    others.compact()
    others.expire()
    assert archived.all_ids() == EVERY
    assert copies_of(archived) == [SECOND, "p_20260301"]
    archived.shop.run("UPDATE orders SET note = 'x' WHERE id = 270")
    archived.warden.sequence.archive(partition=[SECOND]).apply()
    assert copies_of(archived) == ["p_20260301"] and archived.all_ids() == EVERY
    with pytest.raises(Conflict, match="100 rows of partition p_20260301, and no record that they were archived"):
        archived.warden.sequence.archive().apply()
    archived.shop.run("ALTER TABLE orders REORGANIZE PARTITION p_20260301 INTO (PARTITION p_x VALUES LESS THAN (300))")
    with pytest.raises(Conflict, match="has rows of the range that main.archive.orders has as partition p_20260301"):
        archived.all_ids()
    assert copies_of(archived) == []


def test_others_roll_the_archive_back(archived: OldOrders, others: Others) -> None:
    """Its properties stay: rows that are gone are missed, whoever expires snapshots."""
    drop(archived, FIRST, SECOND)
    before, last = others.snapshots()[1:]
    others.roll_back(others.snapshots()[0])
    with pytest.raises(Conflict, match=f"no longer has the rows .* partition {SECOND}\\. "):
        archived.all_ids()
    assert copies_of(archived) == ["p_20260301"]
    archived.warden.retention.expire("archive.orders", keep_last=1, keep_days=0).apply()
    with pytest.raises(Conflict, match=SECOND):
        archived.all_ids()
    assert {before, last} & {*others.snapshots()} == set()
    archived.warden.sequence.archive().apply()
    drop(archived, "p_20260301")
    assert [int(row["id"]) for row in archived.archived()] == [*range(1, 100), *range(200, 300)]
    with pytest.raises(Conflict, match=f"partition {SECOND}\\. "):
        archived.all_ids()


def test_others_roll_the_archive_back_to_an_earlier_copy(archived: OldOrders, others: Others) -> None:
    """With as many rows, and once they were rewritten in files as new as the lost ones."""
    first = others.head
    assert first is not None
    archived.shop.run("UPDATE orders SET note = 'second' WHERE id = 7")
    archived.warden.sequence.archive(again=True, partition=[FIRST]).apply()
    drop(archived, FIRST)
    assert {int(row["id"]): row["note"] for row in archived.warden.sequence.read()}[7] == "second"
    others.roll_back(first)
    with pytest.raises(Conflict, match=FIRST):
        archived.all_ids()
    archived.shop.run("UPDATE orders SET note = 'second' WHERE id = 107")
    archived.warden.sequence.archive(again=True, partition=[SECOND]).apply()
    for done in (others.expire, others.compact, others.expire):
        done()
        with pytest.raises(Conflict, match=FIRST):
            archived.all_ids()


def test_a_second_copy_that_others_rewrote_is_read(archived: OldOrders, others: Others) -> None:
    archived.shop.run("UPDATE orders SET note = 'second' WHERE id = 7")
    archived.warden.sequence.archive(again=True, partition=[FIRST]).apply()
    drop(archived, FIRST)
    for done in (others.compact, others.expire):
        done()
        assert archived.all_ids() == EVERY


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ("ALTER TABLE {t} RENAME COLUMN note TO remark", EVERY),
        ("DELETE FROM {t} WHERE id = 8", [id for id in EVERY if id != 8]),
    ],
)
def test_a_second_copy_that_others_changed_is_read(
    archived: OldOrders, others: Others, change: str, left: list[int]
) -> None:
    for partition, id in ((FIRST, 7), (SECOND, 107)):
        archived.shop.run(f"UPDATE orders SET note = 'second' WHERE id = {id}")
        archived.warden.sequence.archive(again=True, partition=[partition]).apply()
    drop(archived, FIRST, SECOND)
    others.sql(change)
    for done in (others.compact, others.expire):
        done()
        assert archived.all_ids() == left


def test_rows_that_others_deleted_on_purpose_are_forgotten(archived: OldOrders, others: Others) -> None:
    """As the error says."""
    drop(archived, FIRST, SECOND)
    others.sql("DELETE FROM {t} WHERE id < 100")
    with pytest.raises(Conflict, match=f"partition {FIRST}\\. .* expire its earlier snapshots, then run: ALTER TABLE"):
        archived.all_ids()
    others.expire()
    with pytest.raises(Conflict, match="If the archive is meant to be as it is, run: ALTER TABLE") as refused:
        archived.all_ids()
    others.sql(str(refused.value.hint).rpartition("run: ")[2])
    assert archived.all_ids() == list(range(100, 350))
    assert copies_of(archived) == []


def test_what_was_rolled_back_is_archived_again(archived: OldOrders, others: Others) -> None:
    """While the database has it. Rolled forward again, it is there without that."""
    ids = others.snapshots()
    others.roll_back(ids[0])
    archived.configure(grace="0s")
    planned = archived.warden.sequence.drop().plan
    assert [action.arguments["partition"] for action in planned.actions] == [FIRST]
    assert copies_of(archived) == [SECOND, "p_20260301"] and archived.all_ids() == EVERY
    others.roll_back(ids[2])
    assert copies_of(archived) == []
    others.roll_back(ids[0])
    others.expire()
    assert copies_of(archived) == [SECOND, "p_20260301"]
    archived.warden.sequence.archive().apply()
    assert [int(row["id"]) for row in archived.archived()] == list(range(1, 300))
    drop(archived, FIRST, SECOND, "p_20260301")
    assert archived.all_ids() == EVERY and archived.ids() == list(range(300, 350))


def test_unchanged_rows_are_not_copied_again(archived: OldOrders, others: Others) -> None:
    before = others.head
    report = archived.warden.sequence.archive(again=True).apply()
    assert report.result["actions"] == 3 and others.head == before
    archived.shop.run("UPDATE orders SET note = 'x' WHERE id = 7")
    archived.warden.sequence.archive(again=True).apply()
    assert others.metadata.snapshots[-1].parent_snapshot_id == before
    assert [row["note"] for row in archived.archived() if row["id"] == 7] == ["x"]
    others.sql("UPDATE {t} SET note = 'not in the database' WHERE id = 9")
    archived.warden.sequence.archive(again=True).apply()
    assert [row["note"] for row in archived.archived() if row["id"] == 9] == [None]


def test_what_was_stopped_after_its_commit_is_not_copied_again(orders: OldOrders, others: Others) -> None:
    """Though others have expired the snapshot that says so."""
    stop(orders.warden.sequence.archive(partition=[FIRST]), "sequence.published")
    for done in (others.merge_manifests, others.compact, others.expire):
        done()
    assert copies_of(orders) == [SECOND, "p_20260301"]
    orders.warden.operation.resume()
    assert [int(row["id"]) for row in orders.archived()] == list(range(1, 100))


def test_purged_rows_are_not_missed(archived: OldOrders, others: Others) -> None:
    """A purge leaves the copy another one, with fewer rows: also once others have rewritten and expired it."""
    drop(archived, FIRST)
    archived.warden.erasure.request("archive.orders", key="id", value=["7"])
    archived.warden.erasure.purge("archive.orders").apply()
    left = [id for id in EVERY if id != 7]
    assert archived.all_ids() == left
    for done in (others.merge_manifests, others.compact, others.expire):
        done()
        assert archived.all_ids() == left
