"""The Python door as a shell and a notebook show it.

Covers `lifecycle/signature.py`.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property
from inspect import signature
from pathlib import Path
from typing import get_origin

import pytest

import lakewarden
from lakewarden import Warden, registry
from lakewarden.display import NULL, html_of, show_value
from lakewarden.errors import TableNotFound
from lakewarden.features.operation.apply import Apply
from lakewarden.lifecycle.progress import Event
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.rows import Rows
from lakewarden.warden import Ground
from tests.small_lake import SmallLake


def test_dir_shows_what_is_public() -> None:
    code = "import lakewarden; from lakewarden import Warden; print(dir(lakewarden))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == repr(sorted([*lakewarden.__all__, "__version__"]))


def test_a_warden_and_its_nouns(lake: SmallLake) -> None:
    assert repr(lake.warden) == f"<Warden of {lake.folder / 'lakewarden.yaml'}: main (sql)>"
    assert repr(lake.warden.version).startswith("<version: list, show, read, tag, untag, branch, rollback")
    assert "version.tag" in repr(lake.warden.version.tag)
    with Warden(lake.warden.ground.settings) as made_of_settings:
        assert repr(made_of_settings) == "<Warden of settings: main (sql)>"


def test_signatures_are_what_a_person_would_write(lake: SmallLake) -> None:
    tag = signature(lake.warden.version.tag)
    assert str(tag.parameters["keep"]) == "keep: str | datetime.timedelta | None = None"
    assert str(signature(lake.warden.version.list)) == "(table: str, *, limit: int = 50, tagged: bool = False)"
    assert tag.parameters["keep"].annotation == str | timedelta | None
    assert signature(lake.warden.version.read).parameters["out"].annotation == str | Path | None
    for declared in registry.declarations():
        address = declared.address()
        noun = getattr(lake.warden, address.noun.replace("-", "_"))
        shown = str(signature(getattr(noun, address.verb.replace("-", "_"))))
        assert "Annotated" not in shown and "Validator" not in shown, shown


def test_an_error_has_its_hint(lake: SmallLake) -> None:
    lake.create("sales.orders", appends=0)
    with pytest.raises(TableNotFound) as raised:
        lake.warden.version.list("sales.ordres")
    assert str(raised.value) == "no table sales.ordres in lake 'main'. Did you mean sales.orders?"
    assert repr(raised.value) == "TableNotFound(\"no table sales.ordres in lake 'main'\", 'Did you mean sales.orders?')"
    assert str(TableNotFound("gone")) == "gone"


def test_a_plan_shows_what_it_would_do(lake: SmallLake) -> None:
    lake.create()
    before, head = (lake.warden.version.list("sales.orders")[place].snapshot_id for place in (2, 0))
    planned = lake.warden.version.rollback(f"sales.orders@{before}")
    lines = repr(planned).splitlines()
    assert lines[0] == "version rollback  main.sales.orders"
    assert lines[1].startswith(f"  main.sales.orders: move main from {head} to {before}")
    assert lines[-1] == "Nothing changed yet: call .apply()."
    assert repr(planned.plan).splitlines() == lines[:-1]
    html = planned._repr_html_()
    assert f"<td>move main from {head} to {before}" in html and "<code>.apply()</code>" in html
    report = planned.apply()
    assert "<th>state</th><td>done</td>" in report._repr_html_()
    nothing = lake.warden.version.rollback(f"sales.orders@{before}")
    assert repr(nothing) == "version rollback  main.sales.orders\n  nothing to do"


def test_a_plan_shows_its_verdicts_in_a_notebook(lake: SmallLake) -> None:
    lake.create()
    html = lake.warden.retention.expire("sales.orders", keep_last=1, keep_days=0)._repr_html_()
    assert html.count("<td>expired</td>") == 2 and html.count("<td>kept</td>") == 1


def test_answers_are_tables_in_a_notebook(lake: SmallLake) -> None:
    lake.create()
    listed = lake.warden.version.list("sales.orders")
    assert issubclass(type(listed), list) and listed == list(listed)
    assert listed._repr_html_().count("<tr>") == 4 and f"<td>{lake.head()}</td>" in listed._repr_html_()
    assert lake.warden.operation.list()._repr_html_() == "<p>None.</p>"
    assert lake.warden.operation.resume()._repr_html_() == "<p>None.</p>"
    shown = lake.warden.table.show("sales.orders")._repr_html_()
    assert "<th>current snapshot id</th>" in shown and "<b>columns</b>" in shown


def test_rows_in_a_notebook_are_as_they_are() -> None:
    html = Rows(2, 9, True, rows=[{"order_id": 3309, "who": "<b>&"}, {"order_id": None, "who": ""}])._repr_html_()
    assert "<th>order_id</th><th>who</th>" in html
    assert "<td>3309</td><td>&lt;b&gt;&amp;</td>" in html and f"<td>{NULL}</td><td></td>" in html
    assert "<th>rows total</th><td>9</td>" in html and "<th>cut</th><td>yes</td>" in html


def test_a_long_list_is_cut_and_says_so() -> None:
    html = html_of([{"n": n} for n in range(1234)])
    assert html.count("<tr>") == 101 and html.endswith("<p>100 of 1,234</p>")


def test_every_answer_that_is_no_list_can_be_shown_in_a_notebook() -> None:
    for declared in registry.declarations():
        if issubclass(declared, Operation):
            continue
        kind = declared.answer_type()  # type: ignore[attr-defined]
        if get_origin(kind) is not list:
            kinds = getattr(kind, "__args__", (kind,))
            assert all(hasattr(each, "_repr_html_") for each in kinds), f"{declared.address()}: {kind}"


def test_who_acts_and_who_watches_belong_to_a_call(lake: SmallLake) -> None:
    lake.create()
    first: list[Event] = []
    second: list[Event] = []
    by_ada = lake.warden.version.tag("sales.orders", "v1").apply(actor="ada", watch=first.append)
    stored = lake.warden.version.tag("sales.orders", "v2").store(actor="ben")
    lake.warden.steer(Apply(id=stored), actor="cleo", watch=second.append)
    nobody_watches = lake.warden.version.tag("sales.orders", "v3").apply()

    shown = [lake.warden.operation.show(id) for id in (by_ada.id, stored, nobody_watches.id)]
    assert [(each.planned_by, each.applied_by) for each in shown[:2]] == [("ada", "ada"), ("ben", "cleo")]
    assert "@" in shown[2].applied_by
    assert ({event.operation for event in first}, {event.operation for event in second}) == ({by_ada.id}, {stored})
    assert first[-1].phase == second[-1].phase == "finished"


def test_parts_that_several_threads_share_are_made_under_a_lock(lake: SmallLake) -> None:
    assert not [name for name, part in vars(Ground).items() if isinstance(part, cached_property)]
    ground = lake.warden.ground
    with ThreadPoolExecutor(8) as threads:
        assert len(set(map(id, threads.map(lambda _: ground.journal, range(16))))) == 1


def test_long_lists_are_shortened_for_people() -> None:
    assert show_value([f"f{number}" for number in range(10)]).endswith("f8, f9")
    assert show_value([f"f{number}" for number in range(1011)]) == "f0, f1 and 1,009 more"
