"""Changes of a table's metadata as values, and what publishes them.

Each kind of change has its own module, which defines what is requested and how it is published: directly, or through
Spark if there is no other way. `publish.py` sends attempts and retries them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from lakewarden.engine.commit.publish import Publisher
from lakewarden.errors import StalePlan

if TYPE_CHECKING:
    from lakewarden.engine.catalog.tables import Tables
    from lakewarden.engine.files.manifests import Manifests
    from lakewarden.engine.spark.session import Spark
    from lakewarden.lifecycle.basics import Fence, Stamp

T = TypeVar("T")


@dataclass(frozen=True)
class Desk:
    """What a change is published with: the action's fence and stamp."""

    tables: Tables
    fence: Fence
    stamp: Stamp
    reader: Manifests
    sleep: Callable[[float], None] = time.sleep

    @property
    def publisher(self) -> Publisher:
        return Publisher(self.tables, self.fence, self.stamp, self.sleep)


@dataclass(frozen=True)
class Change(Generic[T]):
    """A change of one table; publishing it returns a T."""

    table: str
    uuid: str

    def needs_spark(self, tables: Tables) -> bool:
        """Whether only Spark can publish it, by the table's current format."""
        name = tables.name(self.table)
        return tables.route(tables.load(name), name).needs_spark

    def publish(self, desk: Desk) -> T:
        """Publish it directly: one `commit_table` call with explicit requirements."""
        raise NotImplementedError

    def publish_through_spark(self, desk: Desk, spark: Spark) -> T:
        """Publish it with Spark statements. Changes that Spark makes by a procedure do not come here."""
        raise StalePlan(
            f"the plan is stale: the format version of {self.table} changed", "Nothing was written. Plan again."
        )


class Commits(Protocol):
    """What an action publishes with."""

    def publish(self, change: Change[T]) -> T:
        """Publish a change and return its result. Refused as stale if the table is no longer as the change expects."""
        ...


class RoutedCommits:
    """Publishes each change by its table's route: directly, or through Spark if there is no other way."""

    def __init__(self, desk: Desk, spark: Callable[[], Spark], needs_spark: Callable[[Change[Any]], bool]) -> None:
        self._desk = desk
        self._spark = spark
        self._needs_spark = needs_spark

    def publish(self, change: Change[T]) -> T:
        if self._needs_spark(change):
            return change.publish_through_spark(self._desk, self._spark())
        return change.publish(self._desk)
