"""`query`: what SQL may use in this process."""

from __future__ import annotations

from pydantic import Field

from lakewarden.config.section import Section


class QuerySettings(Section):
    in_process_mb: int = Field(1024, ge=1)
    """Statements that read tables of up to this size run on DuckDB; larger ones need Spark."""
    memory_mb: int = Field(2048, ge=64)
    """The memory of DuckDB for one statement."""
