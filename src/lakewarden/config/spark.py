"""The section `spark`: where Spark runs."""

from __future__ import annotations

import re
from typing import Any

from pydantic import Field, field_validator

from lakewarden.config.section import Section


class SparkSettings(Section):
    """Where Spark runs: in this process by default, on a cluster by `master`, remotely by `remote`."""

    master: str = "local[*]"
    memory: str = "4g"
    remote: str | None = Field(None, repr=False)
    conf: dict[str, str] = Field(default_factory=dict, repr=False)

    @property
    def place(self) -> str:
        """Where it runs, without tokens."""
        return re.split(r"/?[;?]", self.remote, maxsplit=1)[0] if self.remote else self.master

    @field_validator("conf", mode="before")
    @classmethod
    def _as_text(cls, conf: Any) -> Any:
        if not isinstance(conf, dict):
            return conf
        return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in conf.items()}
