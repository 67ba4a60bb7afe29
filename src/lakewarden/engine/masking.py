"""Position deletes that hide rows of a branch, added and taken away again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.engine.changes import Mask, Unmask
    from lakewarden.engine.manifests import Manifests
    from lakewarden.engine.publish import Publisher
    from lakewarden.lifecycle.ground import Stamp


def mask(publisher: Publisher, stamp: Stamp, reader: Manifests, change: Mask) -> int | None:
    """Add position deletes to a branch; answers with the new snapshot. Refused where an input was changed."""
    raise NotImplementedError


def unmask(publisher: Publisher, stamp: Stamp, reader: Manifests, change: Unmask) -> int:
    """Take deletes away wherever they are live; answers with how many branches had them."""
    raise NotImplementedError
