"""What size files of a table should have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lakewarden.features.table.declared import Declared, declarations, resolve, whole_number

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.reference import TableName

DELTA_ENCODED = "delta_encoding is set: Spark readers with Iceberg before 1.10 cannot open the new files"
_MB = 1 << 20
_NAMES = (
    "target_file_size_mb",
    "min_file_size_mb",
    "max_concurrent_files",
    "rewrite_all",
    "verify",
    "task_memory_mb",
    "delta_encoding",
)


@dataclass(frozen=True)
class CompactionPolicy:
    """When files are too small, how large they should be, and how many are written between two commits."""

    target_file_size_mb: int = 512
    min_file_size_mb: int = 10
    max_concurrent_files: int = 100
    rewrite_all: bool = False
    verify: Literal["counts", "full"] = "counts"
    task_memory_mb: int = 512
    delta_encoding: bool = False

    @property
    def target(self) -> int:
        return self.target_file_size_mb * _MB

    @property
    def small(self) -> int:
        """Files below this are small whatever the others are like; never near to what new ones may come to."""
        return min(self.min_file_size_mb * _MB, self.target // 6)

    @property
    def enough(self) -> int:
        """Files of at least this are left alone even where the average is small: an eighth of what is aimed at."""
        return max(self.small, self.target // 8)


def declared_policy(
    settings: Settings, name: TableName, properties: Mapping[str, str], options: Mapping[str, Any]
) -> list[Declared]:
    """Each value of the policy that holds for a table, with its source. What an option says always wins."""
    own = {"target_file_size_mb": whole_number(properties, "write.target-file-size-bytes", _MB) or None}
    return resolve(_NAMES, declarations(settings, name, "compaction", options, own))


def policy_of(declared: list[Declared]) -> CompactionPolicy:
    return CompactionPolicy(**{value.name: value.value for value in declared})
