"""Writes a reference page for each declaration: `python -m lakewarden.doors.reference_pages DIR`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lakewarden import registry
from lakewarden.lifecycle.report import Report
from lakewarden.lifecycle.request import Control, Operation, Question, Request, Setup, described

_KINDS = {
    "question": "A question: reads and changes nothing.",
    "destructive": "A destructive operation: shows its plan and changes nothing without `--apply`.",
    "operation": "An operation: acts immediately; `--plan` only shows what it would do.",
    "control": "A control: acts immediately, with or without `--apply`. It has no plan.",
    "setup": "Needs no installation: runs on the local machine, not over REST.",
}


def pages() -> dict[str, str]:
    """All pages by file name, including the index."""
    written = {
        f"{declared.address().kind.replace('.', '-')}.md": page(declared) for declared in registry.declarations()
    }
    return {"README.md": _index()} | written


def page(declared: type[Request]) -> str:
    """The page of one capability."""
    return "\n".join(_lines(declared)).rstrip() + "\n"


def _index() -> str:
    lines = ["# Reference", "", "Generated from the declarations by `make docs`.", ""]
    for noun in registry.nouns():
        lines += [f"## {noun}", "", registry.describe(noun), "", "| command | what it does |", "| --- | --- |"]
        for verb in registry.verbs(noun):
            lines.append(f"| [`{noun} {verb}`]({noun}-{verb}.md) | {registry.declaration(noun, verb).says()} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _lines(declared: type[Request]) -> Iterator[str]:
    address = declared.address()
    yield from (f"# {address}", "", inspect.cleandoc(declared.__doc__ or ""), "", _KINDS[_kind(declared)], "")
    yield from ("```sh", f"lakewarden {address} {' '.join(_usage(declared))}".rstrip(), "```", "")
    yield from _fields(declared)
    yield from ("## Other interfaces", "")
    method = "GET" if issubclass(declared, Question) and not declared.documents() else "POST"
    yield f"- REST: `{method} /api/v1/{address.noun}/{address.verb}`"
    names = ", ".join(declared.positional())
    python = f"warden.{address.noun}.{address.verb.replace('-', '_')}({names})"
    yield f"- Python: `{python}{'.apply()' if issubclass(declared, Operation) else ''}`"
    if issubclass(declared, Operation) or (issubclass(declared, Control) and declared.journaled):
        yield f"- Journal: `kind = {address.kind}`"
    yield from (f"- Also called: `{address.noun} {word}`" for word in registry.aliases(address.noun, address.verb))
    yield ""
    if not issubclass(declared, Operation):
        yield from _answer(declared)


def _kind(declared: type[Request]) -> str:
    if issubclass(declared, Operation):
        return "destructive" if declared.destructive else "operation"
    if issubclass(declared, Setup):
        return "setup"
    return "question" if issubclass(declared, Question) else "control"


def _usage(declared: type[Request]) -> Iterator[str]:
    positional = declared.positional()
    for name in positional:
        yield name.upper() if declared.fields()[name].is_required() else f"[{name.upper()}]"
    for name in declared.fields():
        if name not in positional:
            yield f"[--{name.replace('_', '-')} …]" if _takes_value(declared, name) else f"[--{name.replace('_', '-')}]"
    if issubclass(declared, Operation):
        yield "[--apply | --plan | --check] [--files] [--wait DURATION]"
    yield "[--json]"


def _takes_value(declared: type[Request], name: str) -> bool:
    return declared.fields()[name].annotation is not bool


def _fields(declared: type[Request]) -> Iterator[str]:
    if not declared.model_fields:
        return
    yield from ("## Arguments", "", "| name | description | default |", "| --- | --- | --- |")
    for name, field in declared.fields().items():
        shown = "required" if field.is_required() else _default(declared, name)
        label = name.upper() if name in declared.positional() else f"--{name.replace('_', '-')}"
        yield f"| `{label}` | {described(field)} | {shown} |"
    yield ""


def _default(declared: type[Request], name: str) -> str:
    default = declared.fields()[name].get_default(call_default_factory=True)
    if default in (None, "", [], False):
        return ""
    shown = declared.model_construct(**{name: default}).model_dump(mode="json", exclude_unset=True)[name]
    return f"`{shown}`"


def _answer(declared: type[Request]) -> Iterator[str]:
    """The keys of the answer's JSON document."""
    assert issubclass(declared, Question | Control | Setup)
    if declared.answer_type() is Report:
        yield from ("## JSON answer", "", "The report of an applied operation:", "")
        yield from (
            "```json",
            '{"operation": {"id", "kind", "state"}, "result": {…}, "findings": [], "left": […], "skipped": […]}',
            "```",
            "",
            "`left` lists what was not started within the budget, `skipped` the tables that other operations held.",
        )
        return
    schema = TypeAdapter(declared.answer_type()).json_schema(mode="serialization")
    many = schema.get("type") == "array"
    shape = _resolved(schema.get("items", {}) if many else schema, schema)
    keys = shape.get("properties", {})
    if keys:
        yield from ("## JSON answer", "", "An array of objects:" if many else "An object:", "")
        yield from ("| key | type |", "| --- | --- |")
        for key, value in keys.items():
            yield f"| `{key}` | {_type(value)} |"
        yield ""


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = part.get("$ref", "").removeprefix("#/$defs/")
    found: dict[str, Any] = schema.get("$defs", {}).get(name, part)
    return found


def _type(value: dict[str, Any]) -> str:
    if "anyOf" in value:
        return " or ".join(_type(each) for each in value["anyOf"])
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if value.get("type") == "array":
        return f"array of {_type(value.get('items', {}))}"
    return f"{value.get('type', 'any')}{' (' + value['format'] + ')' if 'format' in value else ''}"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.md"):
        old.unlink()
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
