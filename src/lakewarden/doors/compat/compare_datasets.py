"""`compare_dataset_schema` and `compare_dataset_data`: comparisons by the names that scripts already use.

    from lakewarden.doors.compat.compare_datasets import compare_dataset_data

    found = await compare_dataset_data("gold", "customers", "v1", "v2")
    found["rows_changed"]

They ask the same questions as `lakewarden compare`, in a thread, and return the same documents as dictionaries.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from lakewarden.doors.compat.iceberg_catalog import Namespace, version_of
from lakewarden.doors.documents import answered
from lakewarden.features.compare.data import Data
from lakewarden.features.compare.schema import Schema
from lakewarden.lifecycle.request import Question
from lakewarden.warden import Warden


async def compare_dataset_schema(
    namespace: Namespace,
    table: str,
    from_version: str | int,
    to_version: str | int | None = None,
    warden: Warden | str | Path | None = None,
) -> dict[str, Any]:
    """What differs between the schemas of two versions of a table."""
    asked = Schema(
        table=version_of(namespace, table, None), from_version=str(from_version), to_version=_ref(to_version)
    )
    return await asyncio.to_thread(_asked, asked, warden)


async def compare_dataset_data(
    namespace: Namespace,
    table: str,
    from_version: str | int,
    to_version: str | int | None = None,
    sample_size: int = 10,
    warden: Warden | str | Path | None = None,
) -> dict[str, Any]:
    """How the rows of two versions of a table differ."""
    asked = Data(
        table=version_of(namespace, table, None),
        from_version=str(from_version),
        to_version=_ref(to_version),
        sample_size=sample_size,
    )
    return await asyncio.to_thread(_asked, asked, warden)


def _ref(version: str | int | None) -> str | None:
    return None if version is None else str(version)


def _asked(question: Question[Any], warden: Warden | str | Path | None) -> dict[str, Any]:
    if isinstance(warden, Warden):
        document: dict[str, Any] = answered(warden.ask(question), question.answer_type())
        return document
    with Warden.open(warden) as opened:
        return _asked(question, opened)
