"""Every capability is there at every door (design §2)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lakewarden import registry
from lakewarden.doors.cli.commands import derive, root
from lakewarden.doors.reference_pages import page, pages
from lakewarden.doors.rest.app import create_app
from lakewarden.errors import WrongUse
from lakewarden.lifecycle.request import Control, Operation, Question, Setup
from tests.small_lake import SmallLake

TOP = Path(__file__).parents[1]
DECLARED = list(registry.declarations())


def test_every_folder_is_a_noun_and_every_noun_a_folder() -> None:
    folders = {path.parent.name for path in (TOP / "src/lakewarden/features").glob("*/__init__.py")}
    assert folders - {"shared", "query"} == {noun.replace("-", "_") for noun in registry.nouns()}


def test_every_module_with_a_request_is_a_verb() -> None:
    """A verb that a noun's list leaves out would be dead."""
    verbs = {registry.module_name(noun, verb) for noun in registry.nouns() for verb in registry.verbs(noun)}
    for path in (TOP / "src/lakewarden/features").rglob("*.py"):
        bases = {
            getattr(base, "id", None) or getattr(getattr(base, "value", None), "id", None)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.ClassDef)
            for base in node.bases
        }
        is_request = bases & {"Operation", "TableOperation", "TablesOperation", "Question", "Control", "Setup"}
        if is_request and path.parent.name != "shared":
            assert ".".join(path.relative_to(TOP / "src").with_suffix("").parts) in verbs


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallLake]:
    with SmallLake(tmp_path_factory.mktemp("registry") / "lake") as lake:
        yield lake


class TestEachCapability:
    """Each test is about all of them; what fails is named in the assertion."""

    def test_its_address_is_its_module(self) -> None:
        for declared in DECLARED:
            address = declared.address()
            assert declared.__module__ == registry.module_name(address.noun, address.verb)
            assert issubclass(declared, Question | Operation | Control | Setup), declared

    def test_has_a_command_with_every_field(self) -> None:
        for declared in DECLARED:
            address = declared.address()
            group = root.get_command(click.Context(root), address.noun)
            assert isinstance(group, click.Group), declared
            command = group.get_command(click.Context(group), address.verb)
            assert command is not None, declared
            names = {param.name for param in command.params}
            assert names >= set(declared.fields()) | {"config", "json"}, declared
            assert issubclass(declared, Operation) == ({"apply", "plan", "check", "wait"} <= names), declared

    def test_has_a_rest_route(self, lake: SmallLake) -> None:
        paths = create_app(lake.warden).openapi()["paths"]
        for declared in DECLARED:
            address = declared.address()
            method = "get" if issubclass(declared, Question) else "post"
            assert method in paths[f"/api/v1/{address.noun}/{address.verb}"], declared

    def test_has_a_python_method(self, lake: SmallLake) -> None:
        for declared in DECLARED:
            address = declared.address()
            noun, name = getattr(lake.warden, address.noun), address.verb.replace("-", "_")
            assert getattr(noun, name).__doc__ == declared.__doc__, declared
            assert name in dir(noun), declared

    def test_has_a_reference_page_that_is_up_to_date(self) -> None:
        for declared in DECLARED:
            path = TOP / "docs/reference" / f"{declared.address().kind.replace('.', '-')}.md"
            assert path.read_text() == page(declared), "run make docs"

    def test_has_a_test(self) -> None:
        for declared in DECLARED:
            address = declared.address()
            path = TOP / "tests/features" / address.noun / f"test_{address.verb.replace('-', '_')}.py"
            assert "def test_" in path.read_text(), declared

    def test_says_what_it_is_and_describes_its_fields(self) -> None:
        for declared in DECLARED:
            assert declared.says().endswith("."), declared
            assert all(field.description for field in declared.model_fields.values()), declared
            assert derive(declared).help, declared


def test_no_reference_page_is_left_over() -> None:
    assert {path.name for path in (TOP / "docs/reference").glob("*.md")} == set(pages())


def test_unknown_words_name_the_nearest() -> None:
    with pytest.raises(WrongUse) as refused:
        registry.declaration("version", "tagg")
    assert refused.value.hint == "Did you mean tag?"
    with pytest.raises(WrongUse):
        registry.operation("version.list")
