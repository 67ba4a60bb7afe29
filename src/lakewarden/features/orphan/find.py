"""`orphan find`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from pydantic import Field

from lakewarden.engine.base.table_name import TableName
from lakewarden.errors import LakewardenError
from lakewarden.features.orphan.age import Aged
from lakewarden.features.orphan.neighbours import Neighbours
from lakewarden.features.orphan.search import Orphan, search
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question
from lakewarden.quantities import Bytes


@dataclass(frozen=True)
class OrphanRow:
    """The orphans of one table, or with --files one of them: then `path` and `kind` are set, and `oldest` is its time.

    `problem` says why a table cannot be searched, `next` is the command that moves its orphans to quarantine.
    """

    table: str
    orphans: int | None = None
    bytes: Bytes | None = None
    oldest: datetime | None = None
    kept_recent: int | None = None
    kept_unknown_age: int | None = None
    kept_in_use: int | None = None
    path: str = ""
    kind: str = ""
    problem: str = ""
    next: str = ""


class Find(Aged, Question[list[OrphanRow]]):
    """Find files under a table's location that no version of it needs.

    Failed writers and incomplete cleanups leave them behind. Files that are too young, of unknown age, or may still be
    committed by a running operation are not orphans; they are counted separately. Exit code 3 if there are orphans.
    """

    nothing = "No orphans."

    files: bool = Field(False, description="List every file.")

    def ask(self, lake: Reader) -> list[OrphanRow]:
        before, neighbours = self.before(lake), Neighbours(lake)

        def look(name: TableName) -> list[OrphanRow]:
            try:
                return self._rows(lake, before, neighbours, name)
            except LakewardenError as error:
                if self.is_one:
                    raise
                return [OrphanRow(str(name), problem=error.message)]

        return [row for rows in lake.tables.read_all(self.chosen(lake), look) for row in rows]

    def found(self, answer: list[OrphanRow]) -> bool:
        return any(row.orphans or row.path or row.problem for row in answer)

    def _rows(self, lake: Reader, before: datetime, neighbours: Neighbours, name: TableName) -> list[OrphanRow]:
        each: list[OrphanRow] = []

        def take(orphan: Orphan) -> None:
            if self.files:
                each.append(
                    OrphanRow(str(name), None, orphan.bytes, orphan.modified_at, path=orphan.path, kind=orphan.kind)
                )

        found = search(lake, name, before, neighbours, take)
        if self.files:
            return sorted(each, key=lambda row: row.path)
        row = OrphanRow(
            str(name),
            found.orphans,
            found.bytes,
            found.oldest,
            found.kept["recent"],
            found.kept["unknown age"],
            found.kept["in use"],
        )
        return [replace(row, next=f"lakewarden orphan quarantine {name}{self.options()}") if found.orphans else row]
