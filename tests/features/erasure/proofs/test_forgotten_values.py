"""What a clean proof makes the journal forget: paths that tell a value, under whatever name the table had then."""

from __future__ import annotations

import sqlite3
import zlib

import pyarrow as pa
import pytest
from pyiceberg.transforms import IdentityTransform

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
