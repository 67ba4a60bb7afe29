"""Publishes changes directly, whatever a table's route is: what the engine's tests commit with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from lakewarden.engine.catalog.tables import Tables
from lakewarden.engine.commit.change import Change, Desk
from lakewarden.engine.files.manifests import Manifests
from lakewarden.lifecycle.basics import Fence, Stamp

T = TypeVar("T")


class DirectCommits:
    """Publishes through PyIceberg's catalogs, without a JVM."""

    def __init__(
        self,
        tables: Tables,
        fence: Fence,
        stamp: Stamp,
        reader: Manifests,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._desk = Desk(tables, fence, stamp, reader, sleep)

    def publish(self, change: Change[T]) -> T:
        return change.publish(self._desk)
