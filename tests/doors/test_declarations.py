"""What declarations can do, at all three doors: documents, aliases, pages, answers that draw themselves.

Tried by a noun for tests only, in `nouns/`: `lifecycle/page.py`, `lifecycle/desk.py`, `config/document.py`,
`doors/cli/document_input.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from inspect import signature
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from lakewarden import features, registry
from lakewarden.doors.cli.main import run
from lakewarden.doors.reference_pages import page
from lakewarden.errors import BadValue
from tests.doors.rest.client import Client, error_of
from tests.small_lake import SmallLake

Say = Callable[..., tuple[int, str, str]]
DEFINITION = {"name": "[red]fern", "parts": ["leaf", "root"]}
TEXT = "name: '[red]fern'\nparts: [leaf, root]\n"


@pytest.fixture
def shop(lake: SmallLake, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallLake]:
    """A lake whose Lakewarden has a noun more."""
    monkeypatch.setattr(features, "NOUNS", (*features.NOUNS, "specimen"))
    monkeypatch.setattr(features, "__path__", [*features.__path__, str(Path(__file__).parent / "nouns")])
    yield lake
    for name in [name for name in sys.modules if name.startswith("lakewarden.features.specimen")]:
        del sys.modules[name]


@pytest.fixture
def say(shop: SmallLake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """Run a command in this process; its exit code, and what it printed to stdout and stderr."""

    def run_it(*words: str, stdin: bytes = b"") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
        code = run([*words, "--config", str(shop.folder)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run_it


class TestDocuments:
    def test_on_the_command_line_it_is_a_file_or_stdin(self, shop: SmallLake, say: Say, tmp_path: Path) -> None:
        file = tmp_path / "fern.yaml"
        file.write_text(TEXT)
        tabbed = json.dumps(DEFINITION, indent="\t").encode()
        for words, stdin in ([str(file)], b""), (["-"], TEXT.encode()), (["-"], tabbed):
            code, out, _ = say("specimen", "define", *words, "--json", stdin=stdin)
            assert code == 0 and json.loads(out)["parts"] == 2
            [row] = shop.warden.operation.list(kind="specimen.define", limit=1)
            assert shop.warden.operation.show(row.id).request == {"definition": DEFINITION, "copy": False}
        code, out, _ = say("specimen", "preview", "--definition", str(file), "--json")
        assert json.loads(out) == [DEFINITION]
        assert "A YAML or JSON file, or - for stdin." in say("specimen", "preview", "--help")[1]

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (b"name: a\nname: b\n", "stdin cannot be read, line 1, column 1: duplicate key 'name'"),
            (b'{"name": "a", "name": "b"}', "duplicate key 'name'"),
            (b"name: [", "stdin cannot be read, line 1"),
            (b"\xff", "stdin is not UTF-8 text"),
            (b"title: a\n", "definition.title: Extra inputs are not permitted"),
        ],
    )
    def test_what_is_none_is_told(self, say: Say, text: bytes, told: str) -> None:
        code, out, err = say("specimen", "define", "-", stdin=text)
        assert (code, out) == (2, "") and told in err

    def test_a_file_that_is_not_there(self, say: Say) -> None:
        code, _, err = say("specimen", "define", "none.yaml")
        assert code == 2 and "none.yaml cannot be read: No such file" in err

    def test_over_rest_it_is_the_value(self, shop: SmallLake) -> None:
        client = Client(shop.warden)
        assert client.post("specimen", "preview", definition=DEFINITION).json() == [DEFINITION]
        assert client.post("specimen", "preview").json() == []
        refused = client.post("specimen", "define", definition="fern.yaml")
        assert refused.status_code == 400 and "definition" in str(error_of(refused)["message"])

    def test_in_python_it_is_the_value(self, shop: SmallLake) -> None:
        assert shop.warden.specimen.define(DEFINITION).parts == 2
        with pytest.raises(BadValue, match="definition"):
            shop.warden.specimen.define("fern.yaml")


class TestAliases:
    def test_of_a_field(self, shop: SmallLake, say: Say) -> None:
        done = shop.warden.specimen.define(DEFINITION, copy=True)
        assert shop.warden.operation.show(done.operation).result == {"copy": True}
        assert list(signature(shop.warden.specimen.define).parameters) == ["definition", "copy"]
        client = Client(shop.warden)
        assert client.post("specimen", "define", definition=DEFINITION, copy=True).status_code == 200
        assert client.post("specimen", "define", definition=DEFINITION, is_copy=True).status_code == 400
        assert say("specimen", "define", "-", "--copy", stdin=TEXT.encode())[0] == 0
        results = [shop.warden.operation.show(row.id).result for row in shop.warden.operation.list()]
        assert results == [{"copy": True}] * 3
        assert "`--copy`" in page(registry.declaration("specimen", "define"))

    def test_of_a_verb(self, shop: SmallLake, say: Say) -> None:
        assert shop.warden.specimen.declare(DEFINITION).parts == 2
        assert Client(shop.warden).post("specimen", "declare", definition=DEFINITION).status_code == 200
        assert say("specimen", "declare", "-", stdin=TEXT.encode())[0] == 0
        kinds = {row.kind for row in shop.warden.operation.list()}
        assert kinds == {"specimen.define"}
        assert "specimen declare" in page(registry.declaration("specimen", "define"))
        assert "/api/v1/specimen/declare" not in Client(shop.warden).app.openapi()["paths"]

    def test_compaction_is_asked_to_verify(self, shop: SmallLake, say: Say) -> None:
        shop.create("sales.orders")
        code, out, _ = say("compaction", "compact", "sales.orders", "--rewrite-all", "--verify", "full", "--json")
        assert code == 0
        shown = json.loads(out)["plan"]
        assert shown["actions"][0]["arguments"]["verify"] == "full"
        [row] = shop.warden.operation.list()
        assert shop.warden.operation.show(row.id).request["verify"] == "full"
        answer = Client(shop.warden).post(
            "compaction", "compact", table="sales.orders", rewrite_all=True, verify="full"
        )
        assert answer.json()["plan"]["id"] == shown["id"]
        assert shop.warden.compaction.compact("sales.orders", rewrite_all=True, verify="full").plan.id == shown["id"]


class TestApply:
    def test_controls_accept_it(self, shop: SmallLake, say: Say) -> None:
        shop.create("sales.orders")
        shop.warden.version.tag("sales.orders", "v1").apply()
        id = shop.warden.version.untag("sales.orders", "v1").store()
        assert say("operation", "apply", id, "--apply")[0] == 0
        assert "v1" not in shop.refs("sales.orders")
        client = Client(shop.warden)
        assert client.post("specimen", "define", definition=DEFINITION, apply=True).status_code == 200

    def test_questions_do_not(self, say: Say) -> None:
        assert say("specimen", "list", "--apply")[0] == 2


class TestPages:
    def test_in_a_terminal_with_how_to_get_the_next(self, say: Say) -> None:
        _, first, _ = say("specimen", "list")
        assert "s2" in first and "s3" not in first
        assert "3 of 5; --after s2 shows the next ones" in first
        _, last, _ = say("specimen", "list", "--after", "s2")
        assert "s4" in last and "--after" not in last

    def test_as_a_document(self, shop: SmallLake, say: Say) -> None:
        expected = {"items": [{"name": "s3"}, {"name": "s4"}], "next": None, "total": 5}
        assert json.loads(say("specimen", "list", "--after", "s2", "--json")[1]) == expected
        assert Client(shop.warden).get("specimen", "list", after="s2").json() == expected

    def test_in_python_it_is_a_sequence(self, shop: SmallLake) -> None:
        found = shop.warden.specimen.list()
        assert [each.name for each in found] == ["s0", "s1", "s2"]
        assert len(found) == 3 and found[0].name == "s0" and found.next == "s2"


class TestAnswersThatDrawThemselves:
    def test_in_a_terminal_as_text_and_not_as_markup(self, say: Say) -> None:
        assert say("specimen", "define", "-", stdin=TEXT.encode())[1] == "[[red]fern] **\n"

    def test_over_rest_by_their_media_type_unless_json_is_asked_for(self, shop: SmallLake) -> None:
        client = Client(shop.warden)
        drawn = client.post("specimen", "define", definition=DEFINITION)
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert drawn.content == b"<svg><text>[red]fern</text></svg>"
        accepting = client.http.post(
            "/api/v1/specimen/define", json={"definition": DEFINITION}, headers={"accept": "application/json"}
        )
        assert accepting.json()["parts"] == 2


class TestTheJournal:
    def test_has_who_did_it(self, shop: SmallLake) -> None:
        done = shop.warden.specimen.define(DEFINITION)
        [row] = shop.warden.operation.list()
        assert (row.id, row.kind, row.target, row.state) == (
            done.operation,
            "specimen.define",
            DEFINITION["name"],
            "done",
        )
        assert (row.done, row.actions) == (1, 1) and "@" in row.who
        assert [step.says for step in shop.warden.operation.show(row.id).steps] == ["defined [red]fern"]

    def test_a_control_that_leaves_no_record_must_say_so(self, shop: SmallLake) -> None:
        with pytest.raises(TypeError, match="specimen.forget made 0 records, but journaled is True"):
            shop.warden.specimen.forget()
