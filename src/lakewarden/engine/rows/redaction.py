"""Keeps key values out of what is shown and stored: paths contain them if a table is partitioned by its key.

A path such as `data/email=a%40b.org/00.parquet` contains the value, or the beginning of it. Redaction replaces it with
`*`, in a path or in any text with such a path.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote_plus

from lakewarden.errors import LakewardenError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table.metadata import TableMetadata

_TELLING = ("identity", "truncate")


def revealing_fields(metadata: TableMetadata, field_ids: Iterable[int]) -> Iterator[tuple[str, PartitionField]]:
    """Partition fields that put values of these columns into paths, under each spelling of their names."""
    keys = set(field_ids)
    for spec in metadata.partition_specs:
        for field in spec.fields:
            if field.source_id in keys and str(field.transform).startswith(_TELLING):
                yield from ((name, field) for name in dict.fromkeys((field.name, quote_plus(field.name))))


@dataclass(frozen=True)
class Redaction:
    """Redacts the values of some partition fields in a table's paths."""

    names: frozenset[str]

    @staticmethod
    def of(metadata: TableMetadata, field_ids: Iterable[int]) -> Redaction:
        """For a table with these key columns, under all specs that it ever had."""
        return Redaction(frozenset(name for name, _ in revealing_fields(metadata, field_ids)))

    def path(self, path: str) -> str:
        """A redacted path."""
        if not self.names:
            return path
        parts = path.split("/")
        return "/".join(
            f"{name}=*" if (name := part.partition("=")[0]) in self.names and "=" in part else part for part in parts
        )

    def text(self, text: str) -> str:
        """A redacted message.

        A value may contain spaces and quotes, as in paths of migrated tables, so everything up to the next slash or the
        end of the line is replaced: better to hide a few words of the message than to show a part of a value.
        """
        if not self.names:
            return text
        names = "|".join(re.escape(name) for name in sorted(self.names, key=len, reverse=True))
        return re.sub(rf"(?<=/)({names})=[^/\n]*", r"\1=*", text)

    @contextmanager
    def of_errors(self) -> Iterator[None]:
        """Redact errors raised in the body."""
        try:
            yield
        except LakewardenError as error:
            if not self.names:
                raise
            error.message, error.hint = self.text(error.message), self.text(error.hint)
            error.args = (error.message,)
            raise error from None
