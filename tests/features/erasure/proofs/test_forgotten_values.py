"""What a clean proof makes the journal forget: paths that tell a value, under whatever name the table had then."""

from __future__ import annotations

import sqlite3
import zlib

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

from lakewarden.errors import LakewardenError
from tests.features.erasure.people import SCHEMA, person
from tests.small_lake import SmallLake


def listed(lake: SmallLake) -> str:
    """The files of all operations, as the control database has them."""
    with sqlite3.connect(lake.folder / "lakewarden.db") as database:
        lists = database.execute("SELECT packed FROM action_files").fetchall()
    return "\n".join(zlib.decompress(packed).decode() for (packed,) in lists)


@pytest.mark.parametrize(
    ("asked_for", "purged"),
    [("crm.people", "crm.people"), ("crm.people", "crm.persons"), ("crm.persons", "crm.persons")],
    ids=["never renamed", "renamed after the request", "renamed before it"],
)
def test_lists_of_files_tell_nobody_whatever_the_table_is_called(lake: SmallLake, asked_for: str, purged: str) -> None:
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", SCHEMA)
    with table.update_spec() as spec:
        spec.add_field("email", IdentityTransform(), "email_key")
    rows = pa.Table.from_pylist([person(n) for n in range(1, 4)], schema=SCHEMA)
    table.append(rows)
    table.overwrite(rows)
    lake.warden.retention.expire("crm.people", keep_last=1, keep_days=0).apply()
    assert "email_key=p1%40example.org" in listed(lake)

    if asked_for != "crm.people":
        lake.catalog.rename_table("crm.people", asked_for)
    asked = lake.warden.erasure.request(asked_for, key="email", value=["p1@example.org"])
    if asked_for != purged:
        lake.catalog.rename_table(asked_for, purged)
    lake.warden.erasure.purge(purged).apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert "p1%40example.org" not in listed(lake)
    assert "email_key=*" in listed(lake) and "email_key=p2%40example.org" in listed(lake)


def test_a_stored_plan_of_another_table_with_the_same_partition_field_keeps_its_files(lake: SmallLake) -> None:
    lake.catalog.create_namespace("crm")
    rows = pa.Table.from_pylist([person(n) for n in range(3, 6)], schema=SCHEMA)
    for name in ("crm.people", "crm.other"):
        table = lake.catalog.create_table(name, SCHEMA)
        with table.update_spec() as spec:
            spec.add_field("id", IdentityTransform(), "id")
        table.append(rows)
        table.append(rows)
    plans = {name: lake.warden.compaction.compact(f"crm.{name}", rewrite_all=True) for name in ("people", "other")}
    stored = {name: plan.store() for name, plan in plans.items()}
    before = listed(lake)
    assert before.count("people/data/id=4/") == before.count("other/data/id=4/") == 2

    asked = lake.warden.erasure.request("crm.people", key="id", value=["4"])
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert "people/data/id=4/" not in listed(lake) and listed(lake).count("other/data/id=4/") == 2
    assert lake.warden.operation.apply(stored["other"]).result["files_rewritten"] == 6
    with pytest.raises(LakewardenError, match="stale"):
        lake.warden.operation.apply(stored["people"])
