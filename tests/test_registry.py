"""Every capability is there at every door (design §2)."""

from __future__ import annotations

import ast
from pathlib import Path

import click
import pytest

from lakewarden import registry
from lakewarden.doors.cli.commands import derive, root
from lakewarden.doors.reference_pages import page, pages
from lakewarden.doors.rest.app import create_app
from lakewarden.errors import WrongUse
from lakewarden.lifecycle.request import Control, Operation, Question, Request, Setup
from tests.small_lake import SmallLake

TOP = Path(__file__).parents[1]
DECLARED = list(registry.declarations())


def _id(declared: type[Request]) -> str:
    return declared.address().kind


def test_every_folder_is_a_noun_and_every_noun_a_folder() -> None:
    folders = {path.parent.name for path in (TOP / "src/lakewarden/features").glob("*/__init__.py")}
    assert folders - {"shared"} == {noun.replace("-", "_") for noun in registry.nouns()}


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


@pytest.mark.parametrize("declared", DECLARED, ids=_id)
class TestEachCapability:
    def test_its_address_is_its_module(self, declared: type[Request]) -> None:
        address = declared.address()
        assert declared.__module__ == registry.module_name(address.noun, address.verb)
        assert issubclass(declared, Question | Operation | Control | Setup)

    def test_has_a_command_with_every_field(self, declared: type[Request]) -> None:
        address = declared.address()
        group = root.get_command(click.Context(root), address.noun)
        assert isinstance(group, click.Group)
        command = group.get_command(click.Context(group), address.verb)
        assert command is not None
        names = {param.name for param in command.params}
        assert names >= set(declared.fields()) | {"config", "json"}
        assert issubclass(declared, Operation) == ({"apply", "plan", "check", "wait"} <= names)

    def test_has_a_rest_route(self, declared: type[Request], lake: SmallLake) -> None:
        address = declared.address()
        paths = create_app(lake.warden).openapi()["paths"]
        method = "get" if issubclass(declared, Question) else "post"
        assert method in paths[f"/api/v1/{address.noun}/{address.verb}"]

    def test_has_a_python_method(self, declared: type[Request], lake: SmallLake) -> None:
        address = declared.address()
        method = getattr(getattr(lake.warden, address.noun), address.verb.replace("-", "_"))
        assert method.__doc__ == declared.__doc__
        assert address.verb.replace("-", "_") in dir(getattr(lake.warden, address.noun))

    def test_has_a_reference_page_that_is_up_to_date(self, declared: type[Request]) -> None:
        path = TOP / "docs/reference" / f"{_id(declared).replace('.', '-')}.md"
        assert path.read_text() == page(declared), "run make docs"

    def test_has_a_test(self, declared: type[Request]) -> None:
        address = declared.address()
        path = TOP / "tests/features" / address.noun / f"test_{address.verb.replace('-', '_')}.py"
        assert path.is_file()
        assert "def test_" in path.read_text()

    def test_says_what_it_is_and_describes_its_fields(self, declared: type[Request]) -> None:
        assert declared.says().endswith(".")
        assert all(field.description for field in declared.model_fields.values())
        assert derive(declared).help


def test_no_reference_page_is_left_over() -> None:
    assert {path.name for path in (TOP / "docs/reference").glob("*.md")} == set(pages())


def test_unknown_words_name_the_nearest() -> None:
    with pytest.raises(WrongUse) as refused:
        registry.declaration("version", "tagg")
    assert refused.value.hint == "Did you mean tag?"
    with pytest.raises(WrongUse):
        registry.operation("version.list")
