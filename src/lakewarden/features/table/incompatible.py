"""`table incompatible`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from lakewarden.engine.files.file_schemas import KnownBy, WrittenFile, written_files
from lakewarden.features.table.older_schemas import differences
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question, Table
from lakewarden.quantities import Bytes

if TYPE_CHECKING:
    from pyiceberg.schema import Schema

_UNKNOWN = "the schema they were written with is not known: the versions that added them are gone"


@dataclass(frozen=True)
class IncompatibleFiles:
    """Files of one older schema that the current schema reads differently, and why."""

    schema_id: int | None
    """None if the table's metadata no longer has that schema, or if it is not known."""
    current_schema_id: int
    differences: list[str]
    files: int
    rows: int
    total_size_bytes: Bytes
    known_by: KnownBy
    file_paths: list[str]

    dispensable: ClassVar[tuple[str, ...]] = ("file_paths", "known_by", "rows")


class Incompatible(Question[list[IncompatibleFiles]]):
    """List files of older schemas that the current schema reads differently, and why.

    Columns are identified by field id: one that was dropped and added again under the same name is another column, so
    files written before have null in it. Read from metadata, without Spark. If metadata does not know the schema of a
    file, because the version that added it has expired, the footer of the file is read.
    """

    nothing = "The current schema reads all files as they were written."

    table: Table
    footers: int = Field(1000, ge=0, description="Read the footers of at most so many files.")

    def ask(self, lake: Reader) -> list[IncompatibleFiles]:
        name = lake.tables.name(self.table)
        table = lake.tables.load(name)
        found = written_files(table, table.current_snapshot(), lake.storage(name.lake), self.footers)
        now, schemas = table.schema(), table.metadata.schemas
        groups: dict[tuple[int | None, tuple[str, ...], KnownBy], list[WrittenFile]] = {}
        seen: dict[int, tuple[int | None, tuple[str, ...]]] = {}
        for file in found:
            key = id(file.schema)
            if key not in seen:
                seen[key] = _described(file.schema, now, schemas)
            groups.setdefault((*seen[key], file.known_by), []).append(file)
        return [
            IncompatibleFiles(
                schema_id=schema_id,
                current_schema_id=now.schema_id,
                differences=list(why),
                files=len(files),
                rows=sum(file.rows for file in files),
                total_size_bytes=sum(file.bytes for file in files),
                known_by=known_by,
                file_paths=sorted(file.path for file in files),
            )
            for (schema_id, why, known_by), files in sorted(groups.items(), key=lambda one: str(one[0]))
            if why
        ]


def _described(then: Schema | None, now: Schema, schemas: list[Schema]) -> tuple[int | None, tuple[str, ...]]:
    """The id of a schema among those of the table, and what the current one reads differently."""
    if then is None:
        return None, (_UNKNOWN,)
    same = (one.schema_id for one in reversed(schemas) if not differences(then, one) and not differences(one, then))
    return next(same, None), tuple(differences(then, now))
