"""`sequence convert`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.conversion import (
    AssumedColumns,
    partitioning,
    read_record,
    speed,
    statement,
)
from lakewarden.features.sequence.partitions import about_rows, position_of
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question


@dataclass(frozen=True)
class Conversion:
    """A statement to run by hand, and what it costs."""

    table: str
    sql: str = ""
    warning: str = ""
    problem: str = ""


class Convert(Question[list[Conversion]], AssumedColumns):
    """Show how to give database tables empty partitions ahead of their rows, for tables that have none.

    The file has the positions that `sequence record` wrote some time ago: they tell how fast each table fills. The
    statements copy rows, so they are only shown, never run.
    """

    nothing = "The file has none of the chosen tables."

    recorded: Annotated[Path, Positional()] = Field(description="The file that sequence record wrote.")

    def ask(self, lake: Reader) -> list[Conversion]:
        sequences, record, now = self.sequences(lake.settings), read_record(self.recorded), lake.clock()
        found = []
        with Reading(sequences) as connection:
            for name in (name for name in self.chosen(sequences) if name in record.tables):
                try:
                    table = partitioning(connection, name, self.assume_partitioned_on)
                    position = position_of(connection, table)
                    outlook = speed(record.tables[name], record.at, table, position or (0,) * len(table.columns), now)
                    is_assumed = bool(self.assume_partitioned_on)
                    sql = statement(table, outlook, sequences.period(name), sequences.num_empty, is_assumed)
                    rows = about_rows(connection, table.name, "" if is_assumed else table.partitions[-1].name)
                    found.append(Conversion(name, sql, f"copies about {rows:,} rows, and blocks writers meanwhile"))
                except LakewardenError as error:
                    found.append(Conversion(name, problem=error.message))
        return found

    def found(self, answer: list[Conversion]) -> bool:
        return any(each.problem for each in answer)
