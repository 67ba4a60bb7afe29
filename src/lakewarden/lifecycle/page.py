"""A part of a long list as an answer, and where the next part begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar, overload

from lakewarden.display import Shown

Item = TypeVar("Item")


@dataclass(frozen=True)
class Page(Shown, Sequence[Item], Generic[Item]):
    """Some items of a list that is too long for one answer. In Python it is also the sequence of its items."""

    items: list[Item]
    next: str | None = None
    """What to give as `after` to get the next page; nothing on the last one."""
    total: int | None = None
    """How many items there are on all pages; unknown where counting them would cost too much."""

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    @overload
    def __getitem__(self, place: int) -> Item: ...

    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...

    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        return self.items[place]
