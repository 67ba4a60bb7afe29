"""Finds the Java that Spark runs on."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lakewarden.errors import SparkUnavailable

OLDEST = 17
_HINT = f"Install Java {OLDEST} or newer (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME."


@dataclass(frozen=True)
class Java:
    command: Path
    version: int


@cache
def find(home: Path | None) -> Java:
    """The Java of JAVA_HOME, else of the PATH, if it is recent enough."""
    command = home / "bin" / "java" if home else Path(shutil.which("java") or "java")
    try:
        output = subprocess.run([command, "-version"], capture_output=True, text=True, check=True, timeout=30).stderr
    except (OSError, subprocess.SubprocessError):
        where = f"at JAVA_HOME={home}" if home else "on the PATH"
        raise SparkUnavailable(f"Spark needs Java, and there is none {where}", _HINT) from None
    match = re.search(r'version "(\d+)', output)
    version = int(match[1]) if match else 0
    if version < OLDEST:
        raise SparkUnavailable(f"Java at {command} is version {version}; Spark needs {OLDEST} or newer", _HINT)
    return Java(command, version)
