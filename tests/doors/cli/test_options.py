"""Options of every type a declaration may have: how they are said, what comes of them, and what is refused."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Annotated, Any, Literal

import click
import pytest
from pydantic import Field

from lakewarden import registry
from lakewarden.doors.cli.commands import derive
from lakewarden.doors.cli.global_options import Global
from lakewarden.errors import BadValue
from lakewarden.lifecycle.request import CommaSeparated, Operation, Setup, Table
from lakewarden.lifecycle.states import State
from lakewarden.quantities import Duration

RESERVED = {"apply", "plan", "check", "files", "wait", "config", "json"}


class Everything(Setup[dict[str, Any]]):
    """Say back what was said."""

    table: Table | None = Field(None, description="A table, or none.")
    only: list[Literal["retention", "compaction", "manifests"]] = Field([], description="Only these.")
    states: tuple[State, ...] = Field((), description="In any of these states.")
    columns: Annotated[list[str], CommaSeparated] = Field([], description="These columns, separated by commas.")
    words: list[str] = Field([], description="Words, each of them whole.")
    budget: Duration | None = Field(None, description="How long at most.")
    limit: int | None = Field(None, description="How many at most.")
    share: float = Field(0.5, description="Which part.")
    force: bool = Field(False, description="All the same.")
    keep_tagged: bool = Field(True, description="Leave tagged ones.")
    sort: bool | None = Field(None, description="Sorted or not, else as configured.")
    strategy: Literal["binpack", "sort"] = Field("binpack", description="How.")
    level: Literal["low", "high"] | None = Field(None, description="How much.")

    def make(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """What a declaration is made of when this is said."""
    derive(Everything).main([*arguments, "--json"], standalone_mode=False, obj=Global(None, False))
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {}),
        (["sales.orders"], {"table": "sales.orders"}),
        (["--only", "retention,compaction"], {"only": ["retention", "compaction"]}),
        (
            ["--only", "retention", "--only", "compaction , manifests"],
            {"only": ["retention", "compaction", "manifests"]},
        ),
        (["--states", "planned,done"], {"states": ["planned", "done"]}),
        (["--columns", "id, city", "--columns", "x"], {"columns": ["id", "city", "x"]}),
        (["--words", "a,b", "--words", "c"], {"words": ["a,b", "c"]}),
        (["--limit", "5"], {"limit": 5}),
        (["--share", "0.25"], {"share": 0.25}),
        (["--force"], {"force": True}),
        (["--no-keep-tagged"], {"keep_tagged": False}),
        (["--keep-tagged"], {"keep_tagged": True}),
        (["--sort"], {"sort": True}),
        (["--no-sort"], {"sort": False}),
        (["--strategy", "sort"], {"strategy": "sort"}),
        (["--level", "high"], {"level": "high"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_said_is_what_is_meant(
    arguments: list[str], expected: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, *arguments) == expected


def test_a_duration_is_read_as_one() -> None:
    heard: list[Everything] = []

    class Hears(Everything):
        """Say back what was said."""

        def make(self) -> dict[str, Any]:
            heard.append(self)
            return {}

    derive(Hears).main(["--budget", "2h", "--json"], standalone_mode=False, obj=Global(None, False))
    assert heard[0].budget == timedelta(hours=2)
    assert heard[0].model_fields_set == {"budget"}  # what was not said is the declaration's to choose


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--only", "retention,everything"], "'everything' is not one of 'retention', 'compaction', 'manifests'"),
        (["--strategy", "zigzag"], "'zigzag' is not one of"),
        (["--no-force"], "No such option"),
        (["--limit", "many"], "limit: Input should be a valid integer"),
        (["--share", "half"], "share: Input should be a valid number"),
        (["--budget", "soon"], "budget: 'soon' is not a duration"),
        (["one", "two"], "unexpected extra argument"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_does_not_fit_is_refused(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises((click.UsageError, BadValue)) as refused:
        said(capsys, *arguments)
    message = refused.value.format_message() if isinstance(refused.value, click.UsageError) else str(refused.value)
    assert told in message


def test_help_tells_how_each_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    derive(Everything).main(["--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert "[TABLE]" in shown
    for option in (
        "--only [retention|compaction|manifests]",
        "--budget DURATION",
        "--limit N",
        "--share N",
        "--keep-tagged / --no-keep-tagged",
        "--strategy [binpack|sort]",
    ):
        assert option in shown, option
    assert "--no-force" not in shown


def test_a_table_that_may_be_left_out_is_positional_and_completed() -> None:
    assert Everything.positional() == ("table",)
    (argument,) = [param for param in derive(Everything).params if isinstance(param, click.Argument)]
    assert not argument.required
    assert argument._custom_shell_complete is not None


def test_no_field_has_the_name_of_an_option_that_every_operation_takes() -> None:
    for declared in registry.declarations():
        taken = RESERVED if issubclass(declared, Operation) else {"config", "json"}
        assert not taken & set(declared.model_fields), declared
