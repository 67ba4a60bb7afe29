"""`CompactionPolicy`, `IcebergCompactionManager` and the script iceberg_compaction.py.

manager = IcebergCompactionManager(IcebergCatalog(), CompactionPolicy(target_file_size_mb=256))
if manager.analyze_table("gold", "customers")["needs_compaction"]:
    manager.compact_table("gold", "customers", dry_run=False)

iceberg_compaction.py --all --target-file-size-mb 512 --execute
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lakewarden.doors.compat import script
from lakewarden.doors.compat.iceberg_catalog import IcebergCatalog, Namespace, version_of
from lakewarden.doors.compat.script import Result

_MB = 1 << 20


@dataclass(frozen=True)
class CompactionPolicy:
    """Target file sizes; None means the configured value of each table."""

    target_file_size_mb: int | None = 512
    min_file_size_mb: int | None = 10
    max_concurrent_files: int | None = 100
    rewrite_all: bool | None = False


class IcebergCompactionManager:
    """Rewrites small files of the tables of a catalog into larger ones."""

    def __init__(self, catalog: IcebergCatalog, policy: CompactionPolicy | None = None) -> None:
        self.catalog = catalog
        self.policy = policy or CompactionPolicy()

    def analyze_table(self, namespace: Namespace, table_name: str) -> Result:
        """File statistics of a table, whether it `needs_compaction`, and the `reason`; without Spark."""
        return self._analyzed(version_of(namespace, table_name))

    def compact_table(self, namespace: Namespace, table_name: str, dry_run: bool = True) -> Result:
        """Compact one table, or with `dry_run` only report what would happen. A failure is under `error`."""
        return self.compact(version_of(namespace, table_name), dry_run)

    def compact_all_tables(self, namespaces: Sequence[str] | None = None, dry_run: bool = True) -> list[Result]:
        """Compact all tables, or those of some namespaces; one that fails does not stop the others."""
        return script.all_results(
            self.catalog.warden, namespaces, lambda table: self.compact(table, dry_run), _nothing(dry_run)
        )

    def compact(self, table: str, dry_run: bool) -> Result:
        """Compact a table by its full name."""
        return script.guarded(self.catalog.warden, table, lambda: self._compacted(table, dry_run), _nothing(dry_run))

    def _compacted(self, table: str, dry_run: bool) -> Result:
        before = self._analyzed(table)
        planned = self.catalog.warden.compaction.compact(table, **asdict(self.policy))
        plan = planned.plan
        acts = not dry_run and not planned.is_empty
        result: Result = {
            "needs_compaction": before["needs_compaction"],
            "reason": before["reason"],
            "compacted": acts,
            "dry_run": dry_run,
            "files_before": before["total_files"],
            "files_after": None if dry_run else before["total_files"],
            "files_after_expected": before["total_files"]
            + sum(action.estimate.files - action.files.count for action in plan.actions),
            "size_before_mb": before["total_size_mb"],
            "size_after_mb": None if dry_run else before["total_size_mb"],
        }
        if acts:
            planned.apply()
            after = self._analyzed(table)
            result |= {"files_after": after["total_files"], "size_after_mb": after["total_size_mb"]}
        return result

    def _analyzed(self, table: str) -> Result:
        given = {name: value for name, value in asdict(self.policy).items() if name != "max_concurrent_files"}
        (found,) = self.catalog.warden.compaction.analyze(table, **given)
        return {
            **asdict(found),
            "total_files": found.files,
            "total_size_mb": round(found.bytes / _MB, 2),
            "avg_file_size_mb": round(found.average_file_bytes / _MB, 2),
        }


def _nothing(dry_run: bool) -> Result:
    return {"needs_compaction": None, "compacted": False, "dry_run": dry_run}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script; the exit code is 0 on success, 1 if a table failed, 2 for wrong use."""
    options = script.parser("Rewrite small files of Iceberg tables into larger ones.")
    options.add_argument("--target-file-size-mb", type=int, metavar="N", help="By default as configured, or 512.")
    options.add_argument("--min-file-size-mb", type=int, metavar="N", help="Smaller files are small; by default 10.")

    def work(catalog: IcebergCatalog, given: argparse.Namespace) -> script.Work:
        policy = CompactionPolicy(given.target_file_size_mb, given.min_file_size_mb, None, None)
        return IcebergCompactionManager(catalog, policy).compact

    return script.main(options, arguments, work, _line, "COMPACTION SUMMARY", _summary)


def _line(result: Result) -> str:
    if result["compacted"]:
        return f"{result['files_before']:,} files compacted into {result['files_after']:,}"
    if result["needs_compaction"]:
        return f"{result['files_before']:,} files would become about {result['files_after_expected']:,}"
    return f"{result['files_before']:,} files, no compaction needed"


def _summary(results: list[Result]) -> Iterator[str]:
    done = [result for result in results if not result["error"]]

    def total(key: str) -> Any:
        return sum(result[key] for result in done)

    dry_run = any(result["dry_run"] for result in results)
    yield f"Tables processed: {len(results):,}"
    which = "needs_compaction" if dry_run else "compacted"
    yield f"{'Tables to compact' if dry_run else 'Tables compacted'}: {sum(bool(result[which]) for result in done):,}"
    after = f"about {total('files_after_expected'):,}" if dry_run else f"{total('files_after'):,}"
    yield f"Files: {total('files_before'):,} -> {after}"
    size = f"{total('size_before_mb'):,.2f} MB"
    yield f"Size: {size}" if dry_run else f"Size: {size} -> {total('size_after_mb'):,.2f} MB"
    yield f"Errors: {len(results) - len(done):,}"
    if dry_run:
        yield "Dry run: nothing was changed. Add --execute to apply."


if __name__ == "__main__":
    sys.exit(main())
