"""The health of a table: what is wrong, how many points that costs, and which command fixes it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

FILES, ROWS, VERSIONS, MANIFESTS, METADATA = 40, 30, 15, 10, 5  # the most points that each can cost
UNSAFE = 50  # files with which other engines may skip rows
UNHIDDEN = 70  # hidden rows that are visible again
OVERDUE = 60  # erasure requests past their deadline
OUTDATED = 20  # partitions of view sets that are older than they are kept
COMPACT_FILES, EXPIRE_VERSIONS, MERGE_MANIFESTS = "compaction compact", "retention expire", "compaction manifests"
ERASE, HIDE_ROWS, RETIRE = "erasure purge", "erasure hide", "policy run --only viewset"
_ROWS_SHARE = 0.3  # share of deleted rows that costs all points
_METADATA_BYTES = 64 << 20  # size of the metadata file that costs all points
_NOTICED = 0.1  # of that size; less is not reported


@dataclass(frozen=True)
class Symptoms:
    """What planners count in a table, and how much of it upkeep would remove."""

    files: int = 0
    small_files: int = 0
    delete_files: int = 0
    files_saved: int = 0
    rows: int = 0
    rows_masked: int = 0
    rows_dropped: int = 0
    versions: int = 0
    versions_expirable: int = 0
    manifests: int = 0
    manifests_saved: int = 0
    metadata_bytes: int = 0
    unsafe_files: int = 0
    requests_overdue: int = 0
    rows_unhidden: int = 0
    partitions_outdated: int = 0


@dataclass(frozen=True)
class Complaint:
    """One problem, how many points it costs, and the command that fixes it."""

    points: float
    reason: str
    remedy: str


def complaints(found: Symptoms) -> list[Complaint]:
    """What is wrong and can be fixed, worst first."""
    saved, dropped = _share(found.files_saved, found.files), _share(found.rows_dropped, found.rows)
    aged = f"{found.versions_expirable} of {found.versions} versions too old"
    old, bundled = _share(found.versions_expirable, found.versions), _share(found.manifests_saved, found.manifests)
    large = min(found.metadata_bytes / _METADATA_BYTES, 1.0)
    late, again, outdated = found.requests_overdue, found.rows_unhidden, found.partitions_outdated
    all = [
        Complaint(
            UNSAFE if found.unsafe_files else 0.0,
            f"other engines may skip rows with NaN: {found.unsafe_files} of {found.files} files lack NaN counts",
            COMPACT_FILES,
        ),
        Complaint(
            UNHIDDEN if again else 0,
            f"{again:,} hidden row{'' if again == 1 else 's'} of erasure requests visible again",
            HIDE_ROWS,
        ),
        Complaint(OVERDUE if late else 0, f"{late} erasure request{'' if late == 1 else 's'} overdue", ERASE),
        Complaint(
            OUTDATED if outdated else 0,
            f"{outdated:,} partition{'' if outdated == 1 else 's'} older than the view set keeps them",
            RETIRE,
        ),
        Complaint(FILES * saved, f"{found.files_saved} of {found.files} files too many", COMPACT_FILES),
        Complaint(
            ROWS * min(dropped / _ROWS_SHARE, 1.0),
            f"{found.rows_dropped:,} of {found.rows:,} rows are deleted but still stored",
            COMPACT_FILES,
        ),
        Complaint(VERSIONS * old, aged, EXPIRE_VERSIONS),
        Complaint(MANIFESTS * bundled, f"{found.manifests_saved} manifests too many", MERGE_MANIFESTS),
        Complaint(
            METADATA * large if large > _NOTICED and found.versions_expirable else 0.0,
            f"the metadata file has {found.metadata_bytes >> 20} MB",
            EXPIRE_VERSIONS,
        ),
    ]
    return sorted((complaint for complaint in all if complaint.points > 0), key=lambda c: -c.points)


def score(found: list[Complaint]) -> int:
    """100 for a table without complaints."""
    return max(0, 100 - ceil(sum(complaint.points for complaint in found)))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
