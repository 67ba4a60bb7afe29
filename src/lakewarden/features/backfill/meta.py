"""The keys of a `.backfill.meta` file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lakewarden.engine.sql.insertion import DATABASE, PREDICATE
from lakewarden.engine.sql.range_binding import BATCH_SIZE, CHECKPOINT
from lakewarden.features.query.statement import Engine

_RESERVED = (DATABASE, BATCH_SIZE, PREDICATE)


class Throttle(BaseModel):
    """The key `throttle` of a `.backfill.meta` file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    share: float | None = Field(None, gt=0, le=1)
    """At most this share of time is spent writing."""
    healthy: str = ""
    """One SELECT with one value: true means that batches may be written."""
    engine: Engine = "duckdb"
    every_seconds: float = Field(10, gt=0)
    """How long an answer counts."""

    @model_validator(mode="after")
    def _limits_something(self) -> Throttle:
        if self.share is None and not self.healthy:
            raise ValueError("needs share or healthy")
        return self


class Gates(BaseModel):
    """The key `gates` of a `.backfill.meta` file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    row_parity: bool = True
    """The branch must have as many rows as the SQL gives, run again."""
    unique_keys: list[str] = Field(default_factory=list)
    """No two rows may have the same values in these columns, also not with a row on main."""
    max_null_ratio: dict[str, Annotated[float, Field(ge=0, le=1)]] = Field(default_factory=dict)
    """By column, the share of NULLs that is allowed."""
    sample_batches: int | None = Field(None, ge=0)
    """So many batches are compared row by row with what the SQL gives; 1 by default, if it gives the same each time."""
    sample_ignores: list[str] = Field(default_factory=list)
    """Columns that the sampled comparison leaves out."""


class Meta(BaseModel):
    """The keys of a `.backfill.meta` file; those that begin with `_` are comments."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    migration_version: int | str
    batch_size: int = Field(ge=1)
    checkpoint_columns: tuple[str, ...] = Field(min_length=1)
    description: str = ""
    target_table: str = ""
    source_table: str = ""
    timeout_seconds: float = Field(3600, gt=0)
    run_on_startup: bool = False
    max_retries: int = Field(3, ge=0)
    custom_fields: dict[str, Any] = Field(default_factory=dict)
    initial_checkpoint: dict[str, Any] = Field(default_factory=dict)
    priority: int = 0
    mode: Literal["direct", "branch"] = "direct"
    on_bad_rows: Literal["fail", "quarantine"] = "fail"
    max_bad_rows: int = Field(1000, ge=0)
    throttle: Throttle | None = None
    gates: Gates = Gates()

    @field_validator("checkpoint_columns", mode="before")
    @classmethod
    def _a_list(cls, given: Any) -> Any:
        return tuple(given) if isinstance(given, list) else given

    @model_validator(mode="after")
    def _complete(self) -> Meta:
        columns = self.checkpoint_columns
        if len({column.lower() for column in columns}) < len(columns):
            raise ValueError("checkpoint_columns names a column twice")
        if self.initial_checkpoint and set(self.initial_checkpoint) != set(columns):
            raise ValueError(f"initial_checkpoint must have exactly the checkpoint columns: {', '.join(columns)}")
        if self.mode == "direct" and "gates" in self.model_fields_set:
            raise ValueError("gates needs mode: branch, since rows that are published directly pass no gate")
        for name in self.custom_fields:
            if name in _RESERVED or name.startswith(CHECKPOINT):
                raise ValueError(f"custom_fields cannot have {name}, which Lakewarden fills in itself")
        return self


KEYS = {"": Meta.model_fields, "throttle": Throttle.model_fields, "gates": Gates.model_fields}
"""The known keys of the file, and of each key that has keys of its own."""
