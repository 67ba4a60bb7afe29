"""Reads documents from files for the command line; other doors receive the value itself."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lakewarden.config.document import Unreadable, parse
from lakewarden.errors import BadValue

_STDIN = "-"


def read_document(place: str) -> Any:
    """The value of a YAML or JSON file, or of stdin."""
    named = "stdin" if place == _STDIN else place
    try:
        content = sys.stdin.buffer.read() if place == _STDIN else Path(place).read_bytes()
        return parse(content.decode("utf-8-sig"))
    except Unreadable as error:
        raise BadValue(f"{named} cannot be read{error}", "It must be one YAML or JSON document.") from None
    except UnicodeDecodeError:
        raise BadValue(f"{named} is not UTF-8 text", "It must be one YAML or JSON document.") from None
    except OSError as error:
        raise BadValue(f"{named} cannot be read: {error.strerror}", "Name a file, or - for stdin.") from None
