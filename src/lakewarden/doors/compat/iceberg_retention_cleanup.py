"""`RetentionPolicy`, `IcebergRetentionManager` and the script iceberg_retention_cleanup.py.

    manager = IcebergRetentionManager(IcebergCatalog(), RetentionPolicy(keep_last_n=100, keep_days=180))
    manager.cleanup_all_tables(namespaces=["gold"], dry_run=True)

    iceberg_retention_cleanup.py --namespace gold --table customers --keep-last 50 --execute

The configuration defines the production tables: by default those in the layers gold and platinum.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakewarden.doors.compat import script
from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog, Namespace, version_of
from lakewarden.doors.compat.script import Result
from lakewarden.quantities import show_size


@dataclass(frozen=True)
class RetentionPolicy:
    """What keeps a snapshot; None means the configured value of each table."""

    keep_last_n: int | None = 30
    keep_days: int | None = 90
    keep_tagged: bool | None = True
    production_keep_days: int | None = 730


class IcebergRetentionManager:
    """Expires old snapshots of the tables of a catalog."""

    def __init__(self, catalog: IcebergCatalog, policy: RetentionPolicy | None = None) -> None:
        self.catalog = catalog
        self.policy = policy or RetentionPolicy()

    def cleanup_table(self, namespace: Namespace, table_name: str, dry_run: bool = True) -> Result:
        """Expire old snapshots of one table, or with `dry_run` only count them. A failure is under `error`."""
        return self.cleanup(version_of(namespace, table_name), dry_run)

    def cleanup_all_tables(self, namespaces: Sequence[str] | None = None, dry_run: bool = True) -> list[Result]:
        """Expire old snapshots of all tables, or those of some namespaces; one that fails does not stop the others."""
        return script.all_results(
            self.catalog.warden, namespaces, lambda table: self.cleanup(table, dry_run), _nothing(dry_run)
        )

    def cleanup(self, table: str, dry_run: bool) -> Result:
        """Expire old snapshots of a table by its full name."""
        return script.guarded(self.catalog.warden, table, lambda: self._cleaned(table, dry_run), _nothing(dry_run))

    def _cleaned(self, table: str, dry_run: bool) -> Result:
        warden, policy, is_production = self.catalog.warden, self.policy, self._is_production(table)
        planned = warden.retention.expire(
            table,
            keep_last=policy.keep_last_n,
            keep_days=None if is_production else policy.keep_days,  # production tables have production_keep_days
            keep_tagged=policy.keep_tagged,
            production_keep_days=policy.production_keep_days,
        )
        verdicts = Counter(verdict.verdict for verdict in planned.plan.verdicts)
        kept, expired = verdicts["kept"], verdicts["expired"]
        freed = sum(action.files.bytes for action in planned.plan.actions)
        of_all = sum(action.expects["bytes_of_all_versions"] for action in planned.plan.actions)
        if not dry_run and not planned.is_empty:
            done = planned.apply().result
            kept, expired = done["snapshots_kept"], done["snapshots_expired"]
            freed = done.get("bytes_freed", 0) + done.get("bytes_quarantined", 0)
        return {
            "total_snapshots": kept + expired,
            "kept": kept,
            "expired": expired,
            "is_production": is_production,
            "dry_run": dry_run,
            "bytes_freed": freed,
            "bytes_of_all_versions": of_all,
        }

    def _is_production(self, table: str) -> bool:
        name = self.catalog.warden.ground.tables.name(table)
        return bool(self.catalog.warden.ground.settings.is_production(name.lake, name.within_lake).value)


def _nothing(dry_run: bool) -> Result:
    return {"total_snapshots": 0, "kept": 0, "expired": 0, "is_production": None, "dry_run": dry_run}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; the exit code is 0 on success, 1 if a table failed, 2 for wrong use."""
    options = script.parser("Expire old snapshots of Iceberg tables, and the files that only they need.")
    options.add_argument("--keep-last", type=int, metavar="N", help="Keep this many versions; by default 30.")
    options.add_argument("--keep-days", type=int, metavar="N", help="Keep younger versions; by default 90.")
    options.add_argument("--production-keep-days", type=int, metavar="N", help="For production tables; by default 730.")

    def work(catalog: IcebergCatalog, given: argparse.Namespace) -> script.Work:
        policy = RetentionPolicy(given.keep_last, given.keep_days, None, given.production_keep_days)
        return IcebergRetentionManager(catalog, policy).cleanup

    return script.main(options, arguments, work, _line, "CLEANUP SUMMARY", _summary)


def _line(result: Result) -> str:
    to = "to expire" if result["dry_run"] else "expired"
    return f"{result['total_snapshots']:,} snapshots, {result['kept']:,} kept, {result['expired']:,} {to}"


def _summary(results: list[Result]) -> Iterator[str]:
    def total(key: str) -> Any:
        return sum(result.get(key, 0) for result in results)

    dry_run = any(result["dry_run"] for result in results)
    yield f"Tables processed: {len(results):,}"
    yield f"Total snapshots: {total('total_snapshots'):,}"
    yield f"Kept: {total('kept'):,}"
    yield f"{'To expire' if dry_run else 'Expired'}: {total('expired'):,}"
    share = f" ({100 * total('bytes_freed') / total('bytes_of_all_versions'):.1f}%)" if total("bytes_freed") else ""
    yield f"{'Space to save' if dry_run else 'Space saved'}: {show_size(total('bytes_freed'))}{share}"
    yield f"Errors: {sum(bool(result['error']) for result in results):,}"
    if dry_run:
        yield "Dry run: nothing was changed. Add --execute to apply."


if __name__ == "__main__":
    sys.exit(main())
