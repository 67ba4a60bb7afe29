"""The options that every command has, before or after its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click


@dataclass(frozen=True)
class Global:
    """Their values before the command's name."""

    config: Path | None
    json: bool


def global_options() -> list[click.Parameter]:
    path = click.Path(path_type=Path)
    return [
        click.Option(
            ["--config"],
            type=path,
            metavar="FILE",
            help="The configuration; by default $LAKEWARDEN_CONFIG or ./lakewarden.yaml.",
        ),
        click.Option(["--json"], is_flag=True, help="Print one JSON document."),
    ]
