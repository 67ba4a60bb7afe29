"""`note append`: a line more in each of some files.

An append leaves no other trace than itself, so a plan says where the line will be, and the action holds if it is
there. The new file is written beside the old one, under the action's stamp, and renamed over it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from lakewarden.lifecycle.action import Action, Outcome
from lakewarden.lifecycle.failpoints import reach
from lakewarden.lifecycle.plan import Plan
from lakewarden.lifecycle.planned_files import FileList
from lakewarden.lifecycle.request import Operation
from lakewarden.lifecycle.requirement import Lake, requirement

if TYPE_CHECKING:
    from lakewarden.lifecycle.ground import Reader, Writer


@requirement
@dataclass(frozen=True)
class FileIs:
    """A file has the title that it had: its first line."""

    path: str
    title: str
    kind: ClassVar[str] = "note.file"
    identifies: ClassVar[bool] = True

    def broken(self, lake: Lake, files: FileList) -> str | None:
        found = title(Path(self.path))
        return None if found == self.title else f"{self.path} was about {self.title} and is now about {found}"


@requirement
@dataclass(frozen=True)
class LengthIs:
    """A file is as long as it was."""

    path: str
    length: int
    kind: ClassVar[str] = "note.length"
    identifies: ClassVar[bool] = False

    def broken(self, lake: Lake, files: FileList) -> str | None:
        found = Path(self.path).stat().st_size
        return None if found == self.length else f"{self.path} had {self.length} bytes and has {found}"


class Append(Operation):
    """Append a line to files."""

    line: str = Field(description="What to append.")
    file: list[str] = Field(description="Where.")

    def plan(self, lake: Reader) -> Plan:
        actions = tuple(self._action(Path(file)) for file in self.file)
        return Plan(self.kind(), f"{len(actions)} files", actions)

    def holds(self, action: Action, lake: Reader) -> bool:
        end, content = str(action.arguments["line"]).encode(), Path(action.subject).read_bytes()
        return content[int(str(action.arguments["at"])) :].startswith(end + b"\n")

    def apply(self, action: Action, lake: Writer) -> Outcome:
        file = Path(action.subject)
        staged = file.with_name(f"{lake.stamp.file_prefix}-{os.urandom(4).hex()}")
        staged.write_bytes(file.read_bytes() + str(action.arguments["line"]).encode() + b"\n")
        reach("note.staged")
        lake.progress(1, 2, "staged")
        staged.replace(file)
        reach("note.replaced")
        return Outcome({"lines": 1})

    def tidy(self, action: Action, lake: Writer) -> None:
        for staged in Path(action.subject).parent.glob(f"{lake.stamp.file_prefix}-*"):
            staged.unlink()

    def _action(self, file: Path) -> Action:
        length = file.stat().st_size
        return Action(
            verb="append",
            subject=str(file),
            lease=f"file:{file}",
            says=f"append {self.line!r}",
            arguments={"line": self.line, "at": length},
            requires=(FileIs(str(file), title(file)), LengthIs(str(file), length)),
            expects={"lines": 1},
        )


def title(file: Path) -> str:
    return file.read_text().partition("\n")[0]
