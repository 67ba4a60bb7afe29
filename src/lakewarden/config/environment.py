"""Reads the environment variables that Lakewarden uses."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    config: Path | None
    cache: Path
    logs: Path
    java_home: Path | None
    user: str
    failpoints: str
    variables: Mapping[str, str]

    @staticmethod
    def read(variables: Mapping[str, str] | None = None) -> Environment:
        env = os.environ if variables is None else variables
        home = Path(env.get("HOME") or Path.home())
        return Environment(
            config=Path(env["LAKEWARDEN_CONFIG"]) if env.get("LAKEWARDEN_CONFIG") else None,
            cache=Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "lakewarden",
            logs=Path(env.get("XDG_STATE_HOME") or home / ".local" / "state") / "lakewarden",
            java_home=Path(env["JAVA_HOME"]) if env.get("JAVA_HOME") else None,
            user=env.get("LAKEWARDEN_ACTOR") or env.get("USER") or env.get("LOGNAME") or _login_name(),
            failpoints=env.get("LAKEWARDEN_FAILPOINTS", ""),
            variables=env,
        )


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no entry for this user id, as in many containers
        return str(os.getuid())
