"""Target file sizes of a table: its compaction settings, which other rewrites follow too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lakewarden.config import Settings
    from lakewarden.engine.base.table_name import TableName

DELTA_ENCODED = "delta_encoding is set: Spark readers with Iceberg before 1.10 cannot open the new files"
_MB = 1 << 20


@dataclass(frozen=True)
class CompactionPolicy:
    """When files are too small, how large they should be, and how many are written per commit."""

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
        """Files below this size are small; always well below the size of new files."""
        return min(self.min_file_size_mb * _MB, self.target // 6)

    @property
    def limit_reached(self) -> int:
        """Files of at least this size, an eighth of the target, are not rewritten even if the average is small."""
        return max(self.small, self.target // 8)


def policy_of(
    settings: Settings, name: TableName, properties: Mapping[str, str], options: Mapping[str, Any]
) -> CompactionPolicy:
    """The effective policy of a table. Options take precedence."""
    values = settings.resolve(name.lake, name.within_lake, "compaction", options, properties)
    return CompactionPolicy(**{name: value.value for name, value in values.items()})
