"""The section `compaction` of defaults, layers and tables: file sizes, and how files are rewritten."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lakewarden.config.section import FromProperty, Section

_MB = 1 << 20


class CompactionSettings(Section):
    target_file_size_mb: Annotated[int, FromProperty("write.target-file-size-bytes", per=_MB, least=1)] = Field(
        512, ge=1
    )
    min_file_size_mb: int = Field(10, ge=1)
    max_concurrent_files: int = Field(100, ge=1)
    rewrite_all: bool = False
    verify: Literal["counts", "full"] = "counts"
    task_memory_mb: int = Field(512, ge=256)
    delta_encoding: bool = False
