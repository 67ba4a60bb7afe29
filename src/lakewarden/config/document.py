"""Parses a YAML or JSON document strictly: duplicate keys are errors, and errors name the line."""

from __future__ import annotations

import json
from typing import Any


class Unreadable(ValueError):
    """An invalid document; the message says where and why."""


def parse(text: str) -> Any:
    """The value of a document. JSON is parsed as such, because YAML rejects tabs as indentation."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except json.JSONDecodeError:
        return _parse_yaml(text)
    except RecursionError:
        raise Unreadable(": it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Unreadable(f": duplicate key {key!r}")
        found[key] = value
    return found


def _parse_yaml(text: str) -> Any:
    import yaml

    class UniqueKeys(yaml.SafeLoader):
        """PyYAML silently keeps the last of duplicate keys; here they are an error."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if key.tag == "tag:yaml.org,2002:str"]
            for key in keys:
                if keys.count(key) > 1:
                    raise yaml.constructor.ConstructorError(None, None, f"duplicate key {key!r}", node.start_mark)
            return super().construct_mapping(node, deep)

    try:
        return yaml.load(text, Loader=UniqueKeys)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise Unreadable(f"{where}: {error.problem}") from None
    except RecursionError:
        raise Unreadable(": it is nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:  # raised for invalid dates
        raise Unreadable(f": {' '.join(str(error).split())}") from None
