"""A page of a long list, and where the next page begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from lakewarden.display import Series

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Series[Item], Generic[Item]):
    """Some items of a long list. In Python it is also the sequence of its items."""

    items: list[Item]
    next: str | None = None
    """Pass this as `after` to get the next page; None on the last one."""
    total: int | None = None
    """The number of items on all pages; None if counting them would cost too much."""

    def series(self) -> list[Item]:
        return self.items
