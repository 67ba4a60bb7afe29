"""Shell completion of table, lake and operation names. It never raises: if nothing can be read, it offers nothing."""

from __future__ import annotations

from pathlib import Path

from lakewarden.errors import LakewardenError


def suggest(what: str, begun: str, config: Path | None) -> list[str]:
    from lakewarden.warden import Warden

    try:
        ground = Warden.open(config).ground
        if what == "lakes":
            known = list(ground.settings.lakes)
        elif what == "operations":
            known = [record.id for record in ground.journal.list(limit=50)]
        else:
            known = [name.within_lake for name in ground.tables.names(ground.settings.default_lake)]
    except LakewardenError:
        return []
    return [word for word in known if word.startswith(begun)]
