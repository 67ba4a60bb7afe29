"""An archive of a database table has a person; after a purge, nothing that is stored has the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.features.erasure.ears import Ears
from tests.features.erasure.test_planted import contents
from tests.features.sequence.old_orders import OldOrders

pytestmark = pytest.mark.spark
PERSON = "anna.o'hära@leak.example.org"


def places(folder: Path) -> list[str]:
    """Where the person is in the control database, and in every file of the installation."""
    ears = Ears()
    ears.database(f"sqlite:///{folder}/lakewarden.db")
    for file in sorted(each for each in folder.rglob("*") if each.is_file()):
        ears.hear(str(file.relative_to(folder)), file.read_bytes())
        for decoded in contents(file):
            ears.hear(str(file.relative_to(folder)), decoded)
    return sorted({place.partition(":")[0] for place in ears.said([PERSON])})


def test_nothing_that_is_stored_has_a_person_of_an_archive(orders: OldOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(orders.folder / "logs"))
    quoted = PERSON.replace("'", "''")
    orders.shop.run(f"UPDATE orders SET customer = '{quoted}' WHERE id = 10")
    orders.configure()
    orders.warden.sequence.archive().apply()
    orders.warden.version.tag("archive.orders", "kept").apply()
    asked = orders.warden.erasure.request("archive.orders", key="customer", value=[PERSON])
    orders.warden.sequence.archive(again=True).apply()
    assert 10 not in orders.all_ids()  # the database still has the row
    assert any("archive/orders" in place for place in places(orders.folder))
    orders.warden.erasure.purge(all=True, now=True).apply()
    assert orders.warden.erasure.show(asked.id).state == "closed"
    orders.warden.close()
    assert places(orders.folder) == []
