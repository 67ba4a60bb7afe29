"""What `partition-manager drop` prints: partitions past retention, and the statement that would drop them.

Nothing is dropped. `lakewarden sequence archive` and `sequence drop` do it, once the rows are in the lake.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from lakewarden.config import SequenceSettings
from lakewarden.errors import LakewardenError
from lakewarden.features.sequence.ages import ages
from lakewarden.features.sequence.connection import Reading
from lakewarden.features.sequence.dates import start_of
from lakewarden.features.sequence.partitions import read_table
from lakewarden.features.sequence.reorganizing import drop_sql

log = logging.getLogger("lakewarden.partition_manager")


def drops(sequences: SequenceSettings, tables: Sequence[str], now: datetime) -> tuple[dict[str, Any], bool]:
    """The partitions to drop by table, and whether a table failed."""
    output: dict[str, Any] = {}
    failed = False
    with Reading(sequences) as connection:
        for name in tables or list(sequences.tables):
            settings = sequences.table(name)
            if settings.kept_for is None or settings.earliest_utc_timestamp_query is None:
                log.warning("%s: drop needs retention and earliest_utc_timestamp_query", name)
                continue
            try:
                output[name] = _drops_of(connection, sequences, name, now)
            except LakewardenError as error:
                log.error("%s: %s", name, error)
                failed = True
    return output, failed


def all_tables(sequences: SequenceSettings) -> list[str]:
    """The tables of the database, for a command that names none."""
    with Reading(sequences) as connection:
        return [str(name) for row in connection.rows("SHOW TABLES") for name in row.values()]


def _drops_of(connection: Reading, sequences: SequenceSettings, name: str, now: datetime) -> dict[str, Any]:
    table, found, chosen = read_table(connection, name), dict[str, Any](), []
    kept_for = sequences.table(name).kept_for
    assert kept_for is not None
    for age in ages(connection, sequences, table):
        partition, bound = age.partition, age.partition.bound or ()
        if age.youngest is None:
            log.warning("%s: %s has no date, so it is kept", name, partition.name)
        if age.youngest is None or not age.is_past(kept_for, now):
            continue
        oldest = start_of(connection, sequences, table, partition) or age.youngest
        lower = table.lower_bound(partition) or (0,) * len(table.columns)
        found[partition.name] = {
            "oldest_time": f"{oldest}",
            "youngest_time": f"{age.youngest}",
            "oldest_position": list(lower),
            "youngest_position": list(bound),
            "oldest_age": f"{now - oldest}",
            "youngest_age": f"{now - age.youngest}",
            "approx_size": sum(high - low for low, high in zip(lower, bound, strict=True)),
        }
        chosen.append(partition)
    return {**found, **({"drop_query": drop_sql(table, chosen)} if chosen else {})}
