"""A part of a long list as an answer, and where the next part begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from lakewarden.display import Series

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Series[Item], Generic[Item]):
    """Some items of a list that is too long for one answer. In Python it is also the sequence of its items."""

    items: list[Item]
    next: str | None = None
    """What to give as `after` to get the next page; nothing on the last one."""
    total: int | None = None
    """How many items there are on all pages; unknown where counting them would cost too much."""

    def series(self) -> list[Item]:
        return self.items
