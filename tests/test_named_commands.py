"""Every command that an error, a help text or a guide names is one that exists."""

from __future__ import annotations

import re
from pathlib import Path

from lakewarden import registry

ROOT = Path(__file__).parents[1]
TEXTS = sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"])
_BREAK = re.compile(r'"\s*\n\s*f?"')
"""A text that goes on in the next line of code."""


def unknown_commands(text: str) -> list[str]:
    known = {noun: registry.verbs(noun) for noun in registry.nouns()}
    named = re.findall(r"lakewarden ([a-z-]+) ([a-z-]+)", _BREAK.sub("", text))
    return [f"{noun} {verb}" for noun, verb in named if noun in known and verb not in known[noun]]


def test_commands_exist() -> None:
    found = {str(path.relative_to(ROOT)): unknown_commands(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert {path: commands for path, commands in found.items() if commands} == {}


def test_a_command_that_does_not_exist_is_found() -> None:
    assert unknown_commands('"Look: lakewarden version "\n    f"history T"') == ["version history"]
