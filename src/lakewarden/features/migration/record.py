"""How far a migration was applied to a database: a property of its namespace.

Before each statement, the record notes what it is about to change. If that differs afterwards, the statement was
applied, even if the process was killed before it could note so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lakewarden.errors import NotFound, TableNotFound
from lakewarden.features.backfill.registration import Place, properties_of, set_property

if TYPE_CHECKING:
    from lakewarden.features.migration.files import Migration, Statement
    from lakewarden.lifecycle.ground import Reader

PROPERTY = "lakewarden.migration."


@dataclass(frozen=True)
class Applied:
    """What is known of a migration in a database."""

    name: str
    digest: str
    done: int
    """Statements that are applied."""
    before: str
    """The fingerprint of what the next statement changes, as it was before."""
    at: str
    complete: bool = False


def applied(lake: Reader, place: Place, migration: Migration) -> Applied | None:
    try:
        text = properties_of(lake, place).get(PROPERTY + migration.version)
    except NotFound:
        return None
    return Applied(**json.loads(text)) if text else None


def note(lake: Reader, place: Place, migration: Migration, known: Applied) -> None:
    set_property(lake, place, PROPERTY + migration.version, asdict(known))


def fingerprint(lake: Reader, place: Place, statement: Statement) -> str:
    """A digest of the definition of a table or namespace, or of the fact that there is none.

    What others change meanwhile does not count: Lakewarden's own properties, and refs that the statement does not name.
    """
    parts = statement.subject.split(".")
    known = parts[0] in lake.settings.lakes and len(parts) > 1
    if statement.is_namespace:
        other = Place(parts[0], tuple(parts[1:])) if known else Place(place.lake, tuple(parts))
        try:
            own = _without_ours(properties_of(lake, other))
        except NotFound:
            return "none"
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()[:16]
    try:
        metadata = lake.tables.load(statement.subject if known else f"{place.lake}.{statement.subject}").metadata
    except TableNotFound as error:
        return "view" if "is a view" in error.message else "none"
    words = set(re.split(r"[\s`]+", statement.text))
    definition = (
        str(metadata.table_uuid),
        metadata.current_schema_id,
        metadata.default_spec_id,
        metadata.default_sort_order_id,
        _without_ours(metadata.properties),
        metadata.location,
        sorted((name, ref.snapshot_id) for name, ref in metadata.refs.items() if name in words and name != "main"),
        getattr(metadata.schema(), "identifier_field_ids", []),
    )
    return hashlib.sha256(json.dumps(definition, default=str).encode()).hexdigest()[:16]


def _without_ours(properties: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted((key, value) for key, value in properties.items() if not key.startswith("lakewarden."))
