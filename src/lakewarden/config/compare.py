"""`compare`: where comparisons run, and within what memory."""

from __future__ import annotations

from pydantic import Field

from lakewarden.config.section import Section


class CompareSettings(Section):
    in_process_mb: int = Field(512, ge=0)
    """Differences of up to this size are read in this process; larger ones on Spark."""
    task_memory_mb: int = Field(512, ge=128)
    row_lineage: bool = True
    """Rows with the same row id and last update count as equal in tables of format v3. Set it to false if a writer
    does not keep them right."""
