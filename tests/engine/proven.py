"""Tables to be proven, and what is put beside their files, for the tests of proofs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record

from lakewarden.engine.proof.scan import Proof, prove
from lakewarden.records.erasure import HiddenKey
from tests.engine.lakes import local
from tests.small_lake import SmallLake

NAME = "crm.people"
LONG_AGO = datetime.now(UTC) - timedelta(days=30)
SCHEMA = pa.schema([("id", pa.int64()), ("email", pa.string()), ("note", pa.string())])
_ID = b"PARQUET:field_id"


@dataclass
class Proven:
    """A table with an e-mail address as its key."""

    lake: SmallLake

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(NAME)

    @property
    def folder(self) -> Path:
        return local(self.table.metadata.location)

    def append(self, *emails: str | None, note: str = "-") -> None:
        rows = [{"id": n, "email": email, "note": note} for n, email in enumerate(emails)]
        self.table.append(pa.Table.from_pylist(rows, schema=SCHEMA))

    def prove(self, *values: str, column: str = "email", kind: str = "string", **options: Any) -> Proof:
        field_id = self.table.schema().find_field(column).field_id
        return self.prove_keys(HiddenKey(field_id, kind, list(values)), **options)

    def prove_keys(self, *keys: HiddenKey, **options: Any) -> Proof:
        storage = self.lake.warden.ground.storage("main")
        options.setdefault("before", datetime.now(UTC) - timedelta(days=3))
        return prove(self.table, keys, storage, **options)

    def put(self, name: str, content: bytes, age: timedelta = timedelta(days=30)) -> Path:
        """A file beside those of the table, which nothing leads to."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.aged(path, age)

    def aged(self, path: Path, age: timedelta = timedelta(days=30)) -> Path:
        moment = (datetime.now(UTC) - age).timestamp()
        os.utime(path, (moment, moment))
        return path

    def add(self, rows: pa.Table, partition: list[Any], **bounds: Any) -> Path:
        """Commit a data file with a partition's values and bounds as they are given, as another engine may have."""
        import pyarrow.parquet as pq

        table = self.table
        path = self.folder / "data" / f"added-{len(list(self.folder.rglob('*.parquet')))}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows.cast(with_ids(rows.schema)), path)
        self.commit(
            DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"file://{path}",
                file_format=FileFormat.PARQUET,
                partition=Record(*partition),
                record_count=rows.num_rows,
                file_size_in_bytes=path.stat().st_size,
                spec_id=table.spec().spec_id,
                **bounds,
            )
        )
        return path

    def commit(self, *files: DataFile) -> None:
        with self.table.transaction() as transaction, transaction.update_snapshot().fast_append() as update:
            for file in files:
                update.append_data_file(file)


def with_ids(schema: pa.Schema, first: int = 1) -> pa.Schema:
    """A schema whose fields have ids, as Iceberg's writers give them."""
    fields = [field.with_metadata({_ID: str(first + n).encode()}) for n, field in enumerate(schema)]
    return pa.schema(fields)


def rows(*emails: str) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": n, "email": email, "note": "-"} for n, email in enumerate(emails)], schema=SCHEMA
    )


def wheres(proof: Proof) -> list[str]:
    return sorted(place.where for place in proof.places)


@pytest.fixture
def people(lake: SmallLake) -> Proven:
    lake.catalog.create_namespace_if_not_exists("crm")
    lake.catalog.create_table(NAME, SCHEMA)
    proven = Proven(lake)
    proven.append("anna@example.org", "bert@example.org")
    return proven
