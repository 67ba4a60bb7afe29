"""`specimen forget`: a control that leaves no record, and does not say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.lifecycle.request import Control

if TYPE_CHECKING:
    from lakewarden.lifecycle.desk import ControlDesk


class Forget(Control[list[str]]):
    """Forget all specimens."""

    def act(self, desk: ControlDesk) -> list[str]:
        return []
