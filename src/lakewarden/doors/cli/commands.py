"""Commands, derived from declarations: nouns are groups, verbs are commands, fields are arguments and options.

A noun is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import click
from click.shell_completion import CompletionItem
from pydantic.fields import FieldInfo

import lakewarden
from lakewarden import registry
from lakewarden.doors.cli.document_input import read_document
from lakewarden.doors.cli.execution import Given, execute
from lakewarden.doors.cli.global_options import Global, global_options
from lakewarden.doors.cli.values import ValueInput
from lakewarden.lifecycle.request import Completes, Control, Document, Operation, ReadsInput, Request, described, marks

_SINGLE_WORDS = ("query", "demo")
_SHELLS = ("bash", "zsh", "fish")
_Resolved = tuple[str | None, click.Command | None, list[str]]


class Root(click.Group):
    """All nouns, and commands of a single word."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*registry.nouns(), *_SINGLE_WORDS]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name in registry.nouns():
            return Noun(name, help=registry.describe(name), params=global_options(), callback=_inner_begin)
        if name in _SINGLE_WORDS:
            command: click.Command = import_module(f"lakewarden.doors.cli.{name}").command
            return command
        return None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> _Resolved:
        return _resolve(self, ctx, args, super().resolve_command)


class Noun(click.Group):
    """The verbs of one noun."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registry.verbs(str(self.name)))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        noun = str(self.name)
        known = registry.meant(noun, name) in registry.verbs(noun)
        return derive(registry.declaration(noun, name)) if known else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> _Resolved:
        return _resolve(self, ctx, args, super().resolve_command)


def derive(declared: type[Request]) -> click.Command:
    """The command of one declaration."""
    positional, documents = declared.positional(), declared.documents()
    fields = declared.fields()
    params: list[click.Parameter] = [
        click.Argument([name], required=fields[name].is_required(), shell_complete=_completer(fields[name]), type=str)
        for name in positional
    ]
    params += [_option(name, field) for name, field in fields.items() if name not in positional]
    params += [option for field in fields.values() if _reads_input(field) for option in _file_options()]
    params += _operation_options() if issubclass(declared, Operation) else []
    if issubclass(declared, Control):  # scripts may pass --apply to every command; a control acts without it too
        params.append(click.Option(["--apply"], is_flag=True, hidden=True))
    params += global_options()

    def callback(**values: Any) -> int:
        context = click.get_current_context()
        outer: Global = context.find_root().obj
        given = Given(
            config=values.pop("config") or outer.config,
            json=values.pop("json") or outer.json,
            **_about_the_plan(values if issubclass(declared, Operation) else {}),
        )
        values.pop("apply", None)
        default = click.core.ParameterSource.DEFAULT
        explicit = {name: value for name, value in values.items() if context.get_parameter_source(name) is not default}
        for name in (name for name, field in fields.items() if _reads_input(field)):
            about_file = (explicit.pop(option, None) for option in ("from_file", "header", "column"))
            given = replace(given, input=ValueInput(explicit.pop(name, ()), *about_file))
        explicit |= {name: read_document(explicit[name]) for name in documents if name in explicit}
        return execute(declared, explicit, given)

    return click.Command(
        declared.address().verb,
        params=params,
        callback=callback,
        help=_help(declared),
        short_help=declared.says().rstrip("."),
        context_settings={"max_content_width": 100},
    )


def _about_the_plan(values: dict[str, Any]) -> dict[str, Any]:
    """Remove and return the options that every operation has."""
    flags = {name: values.pop(name, False) for name in ("apply", "plan", "check", "files")}
    return {**flags, "wait": values.pop("wait", "0s")}


def _help(declared: type[Request]) -> str:
    text = declared.__doc__ or ""
    lines = [line.strip() for line in text.strip().splitlines()]
    if issubclass(declared, Operation):
        kind = (
            "Destructive: shows its plan and changes nothing without --apply."
            if declared.destructive
            else "Acts immediately; --plan only shows what it would do."
        )
        lines += ["", kind]
    arguments = [(name.upper(), described(declared.fields()[name])) for name in declared.positional()]
    if arguments:
        width = max(len(name) for name, _ in arguments)
        lines += ["", "\b"] + [f"{name:<{width}}  {description}" for name, description in arguments]
    return "\n".join(lines)


def _option(name: str, field: FieldInfo) -> click.Option:
    flag, inner = f"--{name.replace('_', '-')}", _inner(field.annotation)
    common: dict[str, Any] = {"help": _described(field), "shell_complete": _completer(field)}
    if inner is bool:
        both = field.get_default(call_default_factory=True) is not False  # otherwise --no-… makes sense too
        return click.Option([f"{flag}/--no-{flag[2:]}" if both else flag, name], is_flag=True, default=None, **common)
    if any(isinstance(mark, Document) for mark in marks(field)):
        return click.Option([flag, name], type=str, metavar="FILE", **common)
    many = get_origin(inner) in (list, tuple)
    choices = _choices(_inner(get_args(inner)[0]) if many else inner)
    metavar = None if choices else _metavar(name, inner)
    if many:
        kind: Any = _Choices(choices) if choices else str
        return click.Option([flag, name], type=kind, multiple=True, metavar=metavar, callback=_flat, **common)
    return click.Option([flag, name], type=click.Choice(choices) if choices else str, metavar=metavar, **common)


class _Choices(click.Choice[str]):
    """Several choices, separated by commas."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        parts = [part.strip() for part in str(value).split(",") if part.strip()]
        return [super(_Choices, self).convert(part, param, ctx) for part in parts]


def _flat(ctx: click.Context, param: click.Parameter, values: Any) -> Any:
    """The values of a repeated option as one list."""
    return [each for value in values or () for each in (value if isinstance(value, list) else [value])]


def _reads_input(field: FieldInfo) -> bool:
    return any(isinstance(mark, ReadsInput) for mark in marks(field))


def _file_options() -> list[click.Parameter]:
    path = click.Path(path_type=Path, allow_dash=True)
    return [
        click.Option(
            ["--from-file"],
            type=path,
            metavar="FILE",
            help="Read values from this .csv, .tsv or .jsonl file, or the lines of any other file; - is stdin.",
        ),
        click.Option(
            ["--header/--no-header"],
            is_flag=True,
            default=None,
            help="Whether the first line of the file is a header; detected by default.",
        ),
        click.Option(
            ["--column"],
            metavar="COLUMN",
            help="The file's column, by name or number; by default the one named like the key, or the first.",
        ),
    ]


def _operation_options() -> list[click.Parameter]:
    return [
        click.Option(["--apply"], is_flag=True, help="Apply the plan."),
        click.Option(["--plan"], is_flag=True, help="Only show what would be done."),
        click.Option(["--check"], is_flag=True, help="Only check: exit code 3 if there is something to do."),
        click.Option(["--files"], is_flag=True, help="Show every action and every file of the plan."),
        click.Option(
            ["--wait"],
            metavar="DURATION",
            default="0s",
            help="Wait this long for tables that other operations hold.",
        ),
    ]


def _described(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    shown = default not in (None, "", [], False) and not field.is_required() and not hasattr(default, "total_seconds")
    text = ",".join(map(str, default)) if isinstance(default, list | tuple) else default
    return f"{described(field)}{f'  [default: {text}]' if shown else ''}"


def _inner(annotation: Any) -> Any:
    """The type beneath `| None` and `Annotated`."""
    if get_origin(annotation) in (Union, UnionType):
        return next(_inner(arg) for arg in get_args(annotation) if arg is not NoneType)
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


def _choices(annotation: Any) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    members = getattr(annotation, "__members__", None)
    return [str(member.value) for member in members.values()] if members else []


def _metavar(name: str, inner: Any) -> str:
    known = {int: "N", float: "N", Path: "FILE", timedelta: "DURATION"}
    return known.get(inner, name.upper().replace("_", "-"))


def _completer(field: FieldInfo) -> Any:
    what = next((mark.what for mark in marks(field) if isinstance(mark, Completes)), None)
    if what is None:
        return None

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from lakewarden.doors.cli.completion import suggest

        config = ctx.params.get("config") or ctx.find_root().params.get("config")
        return [CompletionItem(each) for each in suggest(what, incomplete, config)]

    return complete


def _resolve(group: click.Group, ctx: click.Context, args: list[str], resolve: Callable[..., _Resolved]) -> _Resolved:
    """Resolve a command; an unknown one is an error that names the most similar command."""
    try:
        return resolve(ctx, args)
    except click.UsageError:
        from lakewarden.errors import WrongUse, did_you_mean

        known = group.list_commands(ctx)
        hint = did_you_mean(args[0], known, f"Supported: {', '.join(known)}.")
        raise WrongUse(f"{ctx.command_path} has no command {args[0]!r}", hint) from None


def _show_completion(ctx: click.Context, param: click.Parameter, shell: str | None) -> None:
    if shell:
        from click.shell_completion import get_completion_class

        found = get_completion_class(shell)
        assert found is not None
        click.echo(found(root, {}, "lakewarden", "_LAKEWARDEN_COMPLETE").source())
        ctx.exit()


def _begin(config: Path | None, json: bool, **_: Any) -> None:
    click.get_current_context().obj = Global(config, json)


def _inner_begin(config: Path | None, json: bool) -> None:
    """Options between a noun and its verb count too."""
    context = click.get_current_context()
    outer: Global = context.find_root().obj
    context.find_root().obj = Global(config or outer.config, json or outer.json)


root = Root(
    "lakewarden",
    params=[
        *global_options(),
        click.Option(
            ["--show-completion"],
            type=click.Choice(_SHELLS),
            is_eager=True,
            expose_value=False,
            callback=_show_completion,
            help="Print the completion script for a shell.",
        ),
    ],
    callback=_begin,
    help="Maintains Iceberg tables over their whole lifecycle.\n\n"
    "Questions answer immediately. Operations plan, apply, verify and record what they did; destructive ones only show "
    "their plan without --apply.",
    epilog="Start with: lakewarden demo, or lakewarden lake init DIR. Every command has --help and --json.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(lakewarden.__version__, prog_name="lakewarden")(root)
