"""`sequence stats`."""

from __future__ import annotations

from lakewarden.errors import LakewardenError
from lakewarden.features.sequence import metrics
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.statistics import TableStatistics, statistics
from lakewarden.features.sequence.survey import survey
from lakewarden.features.sequence.target import SequenceRequest
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Question


class Stats(Question[list[TableStatistics]], SequenceRequest):
    """Show figures about the partitions of database tables, also as the configured metrics file for Prometheus."""

    def ask(self, lake: Reader) -> list[TableStatistics]:
        sequences, now = self.sequences(lake.settings), lake.clock()
        found: list[TableStatistics] = []
        with Reading(sequences) as connection:
            for name in self.chosen(sequences):
                try:
                    period = sequences.period(name)
                    surveyed = survey(connection, sequences, name, lake.state.sequence.positions, now, period)
                    found.append(statistics(connection, sequences, surveyed, now))
                except LakewardenError as error:
                    found.append(TableStatistics(name, problem=error.message))
        if sequences.prometheus_stats is not None:
            known = [each for each in found if not each.problem]
            metrics.write(sequences.prometheus_stats, known, now, configured=sequences.tables)
        return found

    def found(self, answer: list[TableStatistics]) -> bool:
        return any(each.problem for each in answer)
