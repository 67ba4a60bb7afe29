"""Plans to forget checkpoints of backfills that are values to erase, where only the source has a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.engine.base.route import route_of_manifests
from lakewarden.engine.rows.search import Searched
from lakewarden.features.erasure.purging.planning import PURGE
from lakewarden.features.erasure.requests.checkpoints import checkpoints_elsewhere, stamped_versions
from lakewarden.lifecycle.action import Action
from lakewarden.lifecycle.requirement import TableIs, table_lease
from lakewarden.quantities import counted
from lakewarden.records.erasure import EvidenceKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.table import Table

    from lakewarden.features.erasure.requests.asked_values import AskedValues
    from lakewarden.lifecycle.ground import Reader


def actions_for(lake: Reader, requests: Sequence[str]) -> Iterator[Action]:
    """One action for each table that only has the values as checkpoints."""
    for name, versions in checkpoints_elsewhere(lake, requests).items() if requests else ():
        table = lake.tables.load(name)
        uuid, route = str(table.metadata.table_uuid), route_of_manifests(lake.tables.route(table, name), table)
        rounds = len(lake.state.erasure.evidence([EvidenceKind.PURGED], uuid=uuid, documents=False))
        expire = f"; {counted(len(versions), 'version')} that had them {'expires' if len(versions) == 1 else 'expire'}"
        yield Action(
            verb=PURGE,
            subject=str(name),
            lease=table_lease(uuid),
            says=f"forget checkpoints of backfills that are values to erase{expire if versions else ''}",
            arguments={
                "uuid": uuid,
                "requests": tuple(requests),
                "snapshots": tuple(map(str, sorted(versions))),
                "checkpoints_only": True,
                "round": rounds,
            },
            requires=(TableIs(str(name), uuid),),
            route=route.name,
            because=route.because,
        )


def searched(table: Table, asked: Sequence[AskedValues]) -> Searched:
    """What is to be replaced: the versions whose stamps have a value."""
    tainted = stamped_versions(table, asked)
    return Searched({}, {}, tainted, listed=0, pruned=0, read=0, bytes_read=0)
