"""The columns of a schema, in the form in which answers show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.schema import Schema


@dataclass(frozen=True)
class Column:
    id: int
    name: str
    type: str
    required: bool
    comment: str = ""


def columns_of(schema: Schema) -> list[Column]:
    return [Column(f.field_id, f.name, str(f.field_type), f.required, f.doc or "") for f in schema.fields]
