"""Merges bundles of manifests in one commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakewarden.engine.catalog.snapshots import MAIN
from lakewarden.engine.commit.change import Change
from lakewarden.engine.commit.new_snapshot import Draft
from lakewarden.engine.commit.publish import Attempt, check_format

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from lakewarden.engine.commit.change import Desk


@dataclass(frozen=True)
class ManifestMerge(Change[int | None]):
    """Bundles of data manifests, each of which becomes one manifest."""

    bundles: tuple[tuple[str, ...], ...]
    branch: str = MAIN

    def publish(self, desk: Desk) -> int | None:
        """Returns the new snapshot; bundles with a missing manifest are skipped."""

        def attempt(table: Table) -> Attempt | None:
            check_format(table, self.table)
            head = table.snapshot_by_name(self.branch)
            if head is None:
                return None
            there = {manifest.manifest_path: manifest for manifest in head.manifests(table.io)}
            bundles = [bundle for bundle in self.bundles if all(path in there for path in bundle)]
            if not bundles:
                return None
            with Draft(table, head, desk.stamp, desk.reader) as draft:
                for bundle in bundles:
                    draft.merge([there[path] for path in bundle])
                facts = {"manifests-created": str(len(bundles)), "manifests-replaced": str(sum(map(len, bundles)))}
                return draft.attempt(self.uuid, self.branch, facts)

        landed = desk.publisher.publish(self.table, self.uuid, attempt)
        return landed.snapshot if landed else None
