"""`sequence record`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.errors import StorageUnavailable, UnfitDatabase
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.conversion import AssumedColumns, partitioning
from lakewarden.features.sequence.partitions import position_of
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question


@dataclass(frozen=True)
class RecordedFile(Shown):
    """Where positions were written to."""

    file: Path
    tables: int


class Record(Question[RecordedFile], AssumedColumns):
    """Write the positions of database tables to a file, for `sequence convert` some time later."""

    to: Annotated[Path, Positional()] = Field(description="The file to write.")

    def ask(self, lake: Reader) -> RecordedFile:
        sequences = self.sequences(lake.settings)
        lines = []
        names = self.chosen(sequences)
        with Reading(sequences) as connection:
            for name in names:
                table = partitioning(connection, name, self.assume_partitioned_on)
                position = position_of(connection, table)
                if position is None:
                    raise UnfitDatabase(f"{table} has no rows", "Leave it out with --table.")
                lines.append(f"  {json.dumps(name)}:")
                lines += [f"    {json.dumps(c)}: {value}" for c, value in zip(table.columns, position, strict=True)]
        text = "\n".join([f"time: {lake.clock().isoformat(' ')}", "tables:", *lines, ""])
        try:
            self.to.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageUnavailable(f"{self.to} cannot be written: {error.strerror}") from error
        return RecordedFile(self.to, len(names))
