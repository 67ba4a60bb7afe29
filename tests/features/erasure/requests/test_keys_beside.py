"""A request covers what Lakewarden keeps beside its tables, in every version.

Covers `features/shared/side_tables.py` and `features/erasure/proofs/later_values.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError, TracesLeft
from lakewarden.features.backfill import bad_rows
from lakewarden.features.erasure import purge
from lakewarden.features.erasure.requests import keys_beside
from lakewarden.features.erasure.requests.spelling import stored_texts
from lakewarden.features.shared.side_tables import side_tables
from lakewarden.features.viewset import definition
from lakewarden.lifecycle import failpoints
from lakewarden.lifecycle.ground import Reader
from tests.features.erasure.people import with_people
from tests.killing import bury
from tests.small_lake import SmallLake

BAD = pa.schema([("backfill", pa.string()), ("run", pa.int32()), ("checkpoint", pa.string())])
ANNA = "p1@example.org"


def beside(lake: SmallLake, name: str, *checkpoints: str) -> None:
    """A table of bad rows with a tag at its first version."""
    table = lake.catalog.create_table(name, BAD)
    for number, each in enumerate(checkpoints):
        table.append(pa.Table.from_pylist([{"backfill": "b", "run": number, "checkpoint": each}], schema=BAD))
        if number == 0:
            lake.warden.version.tag(name, "first").apply()


def made_of_people(lake: SmallLake) -> None:
    """A table that a backfill wrote from people."""
    stamp = {"position": {"source": {"crm.people": "17"}, "checkpoint": '["zz"]'}}
    lake.catalog.create_table("crm.copy", BAD, properties={"lakewarden.backfill.crm_001": json.dumps(stamp)})


def stored(lake: SmallLake, name: str) -> bytes:
    folder = Path("/" + lake.catalog.load_table(name).location().removeprefix("file:").lstrip("/"))
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def checkpoints(lake: SmallLake, name: str) -> list[str]:
    return sorted(lake.catalog.load_table(name).scan().to_arrow()["checkpoint"].to_pylist())


def test_the_nouns_name_their_tables() -> None:
    assert side_tables() == {bad_rows.SUFFIX: "checkpoint", definition.EMPTY_SUFFIX: definition.INSTANCE}


@pytest.mark.parametrize("name", ["crm.people__bad_rows", "crm.copy__bad_rows"])
def test_tuples_of_a_person_are_purged_from_every_version(lake: SmallLake, name: str) -> None:
    with_people(lake)
    made_of_people(lake)
    beside(lake, name, json.dumps([ANNA, 7]), json.dumps(["p2@example.org", 7]), json.dumps([ANNA, 8]))
    assert ANNA.encode() in stored(lake, name)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", f"main.{name}"]
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, name)
    assert checkpoints(lake, name) == [json.dumps(["p2@example.org", 7])]
    assert "first" in lake.refs(name)


def test_tables_beside_others_are_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    lake.catalog.create_table("crm.other", BAD)
    for name in ("crm.other__bad_rows", "crm.people__bad_rows"):
        beside(lake, name, "[2]")
    assert lake.warden.erasure.request("crm.people", key="id", value=["1"]).tables == ["main.crm.people"]
    asked = lake.warden.erasure.request("crm.people", key="id", value=["2"])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]


def test_letter_case_is_ignored_there_too(lake: SmallLake) -> None:
    with_people(lake)
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA.upper()]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA], ignore_case=True)
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]


def test_a_table_that_only_has_such_a_name_does_not_stand_in_the_way_of_others(lake: SmallLake) -> None:
    with_people(lake)
    made_of_people(lake)
    lake.catalog.create_table("crm.copy__bad_rows", pa.schema([("x", pa.int32())]))
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]
    assert not [note for note in asked.notes if "could not be searched" in note]


def test_a_table_that_cannot_be_read_is_named_and_others_are_covered(lake: SmallLake) -> None:
    with_people(lake)
    made_of_people(lake)
    number = pa.schema([("checkpoint", pa.map_(pa.string(), pa.int32()))])
    lake.catalog.create_table("crm.copy__bad_rows", number)
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.crm.people__bad_rows"]
    assert [note for note in asked.notes if "could not be searched" in note and "crm.copy__bad_rows" in note]


AT = pa.timestamp("us", tz="UTC")
OWN = [
    (each, AT if each in (definition.BEGIN, definition.END, definition.UPDATED) else pa.string())
    for each in definition.OWN
]
VIEW = pa.schema([("amount", pa.string()), *OWN])
DAY = datetime(2026, 1, 1, tzinfo=UTC)
BY_EMAIL = {"name": "views", "source": "crm.people", "insert_time": "at", "instances": "email"}
BY_EMAIL["sql"] = "SELECT amount FROM crm.people WHERE at >= {begin} AND at < {end}"


def view_set(lake: SmallLake, *instances: str, **given: str) -> None:
    """A view set whose SQL does not select the key, with one partition of each instance."""
    lake.catalog.create_namespace_if_not_exists("viewsets")
    properties = {definition.PROPERTY: json.dumps(BY_EMAIL | given)}
    lake.catalog.create_table("viewsets.views__empty", pa.schema(OWN))
    table = lake.catalog.create_table("viewsets.views", VIEW, properties=properties)
    with table.update_spec() as spec:
        for name in definition.IDENTITY:
            spec.add_field(name, IdentityTransform(), name)
    texts = {definition.HASH: "0123", definition.SOURCE_HASH: "4567", "amount": "17"}
    times = dict.fromkeys((definition.BEGIN, definition.END, definition.UPDATED), DAY)
    rows = [{definition.INSTANCE: each, **texts, **times} for each in instances]
    lake.catalog.load_table("viewsets.views").append(pa.Table.from_pylist(rows, schema=VIEW))


def refused(lake: SmallLake, request: str, table: str) -> None:
    """A purge finds what was written since the request, and does not close it."""
    with pytest.raises(LakewardenError, match=rf"{table} may have values of {request}.*purge it again"):
        lake.warden.erasure.purge("crm.people").apply()
    shown = lake.warden.erasure.show(request)
    assert shown.state == "open" and f"main.{table}" in {key.table for key in shown.keys}


@pytest.mark.parametrize("earlier", [(), (json.dumps([ANNA, 7]),)], ids=["a new table", "a table that it covers"])
def test_what_is_written_after_the_request_keeps_it_open_until_it_is_purged(
    lake: SmallLake, earlier: tuple[str, ...]
) -> None:
    with_people(lake)
    if earlier:
        beside(lake, "crm.people__bad_rows", *earlier)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    if earlier:
        row = {"backfill": "b", "run": 2, "checkpoint": json.dumps([ANNA, 8])}
        lake.catalog.load_table("crm.people__bad_rows").append(pa.Table.from_pylist([row], schema=BAD))
    else:
        beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]), "[3]")
    refused(lake, asked.id, "crm.people__bad_rows")
    lake.warden.erasure.purge(request=[asked.id]).apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, "crm.people__bad_rows")
    assert checkpoints(lake, "crm.people__bad_rows") == ([] if earlier else ["[3]"])


def test_values_of_one_request_do_not_keep_others_open(lake: SmallLake) -> None:
    with_people(lake)
    asked = [lake.warden.erasure.request("crm.people", key="email", value=[one]).id for one in (ANNA, "p2@example.org")]
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    refused(lake, asked[0], "crm.people__bad_rows")
    assert lake.warden.erasure.show(asked[1]).state == "closed"
    lake.warden.erasure.purge(all=True).apply()
    assert lake.warden.erasure.show(asked[0]).state == "closed"


def test_a_request_that_a_killed_run_has_proved_and_not_closed_is_closed_by_the_next(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])

    def interrupt() -> None:
        raise KeyboardInterrupt

    failpoints.when("prove.recorded", interrupt)
    with pytest.raises((LakewardenError, KeyboardInterrupt)):
        lake.warden.erasure.purge("crm.people").apply()
    failpoints.arm("")
    lake.warden.operation.cancel(lake.warden.operation.list()[0].id)
    assert lake.warden.erasure.show(asked.id).state == "open"
    planned = lake.warden.erasure.purge("crm.people")
    assert [action.verb for action in planned.plan.actions] == ["prove"]
    planned.apply()
    assert lake.warden.erasure.show(asked.id).state == "closed" and lake.warden.erasure.purge(all=True).is_empty


def test_a_table_that_cannot_be_searched_keeps_a_request_open(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    table = lake.catalog.load_table("crm.people__bad_rows")
    file = Path("/" + table.inspect.files()["file_path"][0].as_py().removeprefix("file:").lstrip("/"))
    content = file.read_bytes()
    file.write_bytes(b"PAR1 damaged")
    with pytest.raises(TracesLeft, match=r"crm\.people__bad_rows.*could not be searched"):
        lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "open"
    file.write_bytes(content)
    with pytest.raises(TracesLeft, match="may have values"):
        lake.warden.erasure.prove(asked.id).apply()
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"


def test_the_instances_of_a_view_set_are_covered_if_they_are_values_of_the_key(lake: SmallLake) -> None:
    with_people(lake)
    view_set(lake, ANNA, "p2@example.org", "global")
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.viewsets.views"]
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, "viewsets.views")
    left = lake.catalog.load_table("viewsets.views").scan().to_arrow()[definition.INSTANCE].to_pylist()
    assert sorted(left) == ["global", "p2@example.org"]


def test_instances_that_are_values_of_another_column_are_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    view_set(lake, "1", "2", instances="number")
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    assert asked.tables == ["main.crm.people"]


def test_a_view_set_of_a_former_definition_is_covered(lake: SmallLake) -> None:
    with_people(lake)
    view_set(lake, ANNA)
    former = json.loads(lake.catalog.load_table("viewsets.views").properties[definition.PROPERTY])
    now = {key: value for key, value in former.items() if key != "instances"}
    history = {"0123": [{"definition": former, "columns": {}, "reads": {}}]}
    with lake.catalog.load_table("viewsets.views").transaction() as change:
        change.set_properties({definition.PROPERTY: json.dumps(now), definition.HISTORY: json.dumps(history)})
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    assert asked.tables == ["main.crm.people", "main.viewsets.views"]


def test_a_view_set_that_is_registered_after_the_request_is_covered(lake: SmallLake) -> None:
    with_people(lake)
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    view_set(lake, ANNA)
    refused(lake, asked.id, "viewsets.views")
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, "viewsets.views")


def stamped(lake: SmallLake, checkpoint: str, by: str = "main.crm.people by number, id") -> None:
    """A table that a backfill wrote from people, whose tuples are of two columns."""
    stamp = {"position": {"source": {"crm.people": "17"}, "checkpoint": checkpoint, "by": by}}
    lake.catalog.create_table("crm.copy", BAD, properties={"lakewarden.backfill.b": json.dumps(stamp)})


ROWS = ("[5, 1]", "[5, 2]", "[1, 5]", "[1, 6]")


@pytest.mark.parametrize(
    ("by", "left"),
    [
        ("main.crm.people by number, id", ["[1, 6]", "[5, 1]", "[5, 2]"]),
        ("main.crm.people by id, number", ["[1, 5]", "[1, 6]"]),
        ("crm.people by number, born", sorted(ROWS)),
        ("", ["[1, 6]"]),
        ("crm.people by id", ["[1, 6]"]),
    ],
    ids=["second", "first", "neither", "not known", "of other columns"],
)
def test_only_the_element_that_is_the_key_counts(lake: SmallLake, by: str, left: list[str]) -> None:
    with_people(lake)
    stamped(lake, '["zz"]', by)
    beside(lake, "crm.copy__bad_rows", *ROWS)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"])
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert checkpoints(lake, "crm.copy__bad_rows") == left


def test_rows_of_a_backfill_whose_columns_are_not_known_count_at_any_position(lake: SmallLake) -> None:
    with_people(lake)
    stamped(lake, '["zz"]')
    table = lake.catalog.create_table("crm.copy__bad_rows", BAD)
    rows = [{"backfill": each, "run": 1, "checkpoint": "[5, 1]"} for each in ("b", "never_written")]
    table.append(pa.Table.from_pylist(rows, schema=BAD))
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"])
    assert asked.tables == ["main.crm.people", "main.crm.copy__bad_rows"]


@pytest.mark.parametrize(("checkpoint", "is_forgotten"), [("[5, 900]", False), ("[900, 5]", True)])
def test_a_checkpoint_is_forgotten_only_for_the_element_that_is_the_key(
    lake: SmallLake, checkpoint: str, is_forgotten: bool
) -> None:
    with_people(lake)
    stamped(lake, checkpoint)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"])
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    kept = json.loads(lake.catalog.load_table("crm.copy").properties["lakewarden.backfill.b"])["position"]
    assert (kept["checkpoint"], kept.get("forgotten", False)) == (None if is_forgotten else checkpoint, is_forgotten)


def test_partitions_without_rows_of_other_columns_are_left_alone(lake: SmallLake) -> None:
    with_people(lake)
    view_set(lake, instances="number")
    own = dict.fromkeys((name for name, _ in OWN), "1") | {name: DAY for name, kind in OWN if kind == AT}
    lake.catalog.load_table("viewsets.views__empty").append(pa.Table.from_pylist([own], schema=pa.schema(OWN)))
    assert lake.warden.erasure.request("crm.people", key="id", value=["1"]).tables == ["main.crm.people"]


def renamed(lake: SmallLake, column: str) -> None:
    with lake.catalog.load_table("crm.people").update_schema() as schema:
        schema.rename_column(column, f"person_{column}")


def test_a_column_is_known_by_its_former_names(lake: SmallLake) -> None:
    with_people(lake)
    stamped(lake, "[900, 7]")
    beside(lake, "crm.copy__bad_rows", *ROWS)
    renamed(lake, "id")
    asked = lake.warden.erasure.request("crm.people", key="person_id", value=["5"])
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert checkpoints(lake, "crm.copy__bad_rows") == ["[1, 6]", "[5, 1]", "[5, 2]"]


def test_a_name_that_no_column_of_the_table_has_had_says_nothing(lake: SmallLake) -> None:
    with_people(lake)
    stamped(lake, "[900, 7]", "main.crm.people by before, after")
    beside(lake, "crm.copy__bad_rows", *ROWS)
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"])
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert checkpoints(lake, "crm.copy__bad_rows") == ["[1, 6]"]


def test_rows_of_which_the_backfill_column_was_dropped_and_added_again_are_searched(lake: SmallLake) -> None:
    with_people(lake)
    stamped(lake, '["zz"]')
    beside(lake, "crm.copy__bad_rows", "[1, 5]")
    for change in ("delete_column", "add_column"):
        with lake.catalog.load_table("crm.copy__bad_rows").update_schema() as schema:
            getattr(schema, change)("backfill", *([StringType()] if change == "add_column" else []))
    asked = lake.warden.erasure.request("crm.people", key="id", value=["5"])
    assert asked.tables == ["main.crm.people", "main.crm.copy__bad_rows"]


@pytest.mark.parametrize("point", ["prove.covering", "prove.covered"])
def test_a_run_that_is_killed_while_it_covers_values_does_not_close_the_request(lake: SmallLake, point: str) -> None:
    with_people(lake)
    beside(lake, "crm.people__bad_rows", json.dumps([ANNA, 7]))
    asked = lake.warden.erasure.request("crm.people", key="email", value=[ANNA])
    row = {"backfill": "b", "run": 2, "checkpoint": json.dumps([ANNA, 8])}
    lake.catalog.load_table("crm.people__bad_rows").append(pa.Table.from_pylist([row], schema=BAD))
    command = ("erasure", "purge", "crm.people", "--apply")
    assert lake.run(*command, failpoints=f"kill@{point}", check=None).returncode < 0
    bury(lake)
    lake.run("operation", "resume", check=None)
    assert lake.warden.erasure.show(asked.id).state == "open"
    lake.warden.erasure.purge("crm.people").apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    assert ANNA.encode() not in stored(lake, "crm.people__bad_rows")


def unreadable(lake: SmallLake, name: str) -> None:
    location = lake.catalog.load_table(name).metadata_location
    Path("/" + location.removeprefix("file:").lstrip("/")).write_text("{broken")


def test_an_unreadable_table_matters_only_if_values_are_beside_it(lake: SmallLake) -> None:
    with_people(lake)
    lake.catalog.create_table("crm.other", BAD)
    beside(lake, "crm.other__bad_rows", "[2]")
    unreadable(lake, "crm.other")
    asked = lake.warden.erasure.request("crm.people", key="id", value=["1"])
    assert [note for note in asked.notes if note.startswith("main.crm.other cannot be read")]
    other = lake.warden.erasure.request("crm.people", key="id", value=["2"])
    lake.warden.erasure.purge(request=[asked.id]).apply()
    assert lake.warden.erasure.show(asked.id).state == "closed"
    with pytest.raises(TracesLeft, match=r"crm\.other .*could not be searched"):
        lake.warden.erasure.purge(request=[other.id]).apply()
    assert lake.warden.erasure.show(other.id).state == "open"


def test_tables_are_read_once_for_all_requests_that_are_closed(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_people(lake)
    some = [lake.warden.erasure.request("crm.people", key="id", value=[str(id)]).id for id in range(4)]
    beside(lake, "crm.people__bad_rows", "[1, 7]")
    plan, read, texts = lake.warden.erasure.purge("crm.people"), list[str](), stored_texts

    def counted(lake: Reader, name: TableName, table: Table, fields: set[int]) -> Iterator[tuple[int, set[str]]]:
        read.append(f"{name} {sorted(fields)}")
        return texts(lake, name, table, fields)

    monkeypatch.setattr(keys_beside, "stored_texts", counted)
    with pytest.raises(TracesLeft, match=rf"may have values of {some[1]} "):
        plan.apply()
    assert read and len(read) == len(set(read))


def test_tables_without_stamps_are_purged_without_looking_up_all_names(
    lake: SmallLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_people(lake)
    lake.warden.erasure.request("crm.people", key="id", value=["1"])
    plan = lake.warden.erasure.purge("crm.people")
    monkeypatch.setattr(purge, "asked_values", pytest.fail)
    plan.apply()
