"""The columns of a schema, in the form in which answers show them."""

from __future__ import annotations

import re
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


def promotes(old: str, new: str) -> bool:
    """Whether Iceberg reads values of the one type as the other."""
    before, after = (re.fullmatch(r"decimal\((\d+), (\d+)\)", kind) for kind in (old, new))
    if before and after:
        return before[2] == after[2] and int(before[1]) < int(after[1])
    return (old, new) in (("int", "long"), ("float", "double"))
