"""Files replaced in every version of a table at once: new snapshots for all refs, in one commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakewarden.engine.changes import Cleansed, Cleansing
    from lakewarden.engine.manifests import Manifests
    from lakewarden.engine.publish import Publisher
    from lakewarden.lifecycle.ground import Stamp


def cleanse(
    publisher: Publisher,
    stamp: Stamp,
    reader: Manifests,
    change: Cleansing,
    about_to: Callable[[Sequence[str]], None],
) -> Cleansed | None:
    """Replace files in every version at once, and let the versions that had them go; None where none has them."""
    raise NotImplementedError
