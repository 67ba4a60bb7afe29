"""Tables that have been through a lot, with seventy people in them, fifty of whom are to be forgotten.

Their keys are in data files, dictionaries, bounds, partition values, paths, summaries, position and equality deletes,
deletion vectors, DELETED entries, statistics, quarantine, and in metadata that lost a race.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.deletes_by_hand import column_of, commit_deletes, equality_deletes, unpartitioned
from tests.features.erasure.independent import Erased, Trace, physical, traces
from tests.features.erasure.independent_rows import Version, local, read_metadata, versions
from tests.small_lake import SmallLake

PEOPLE = range(70)
GONE = frozenset(n for n in PEOPLE if n % 2 == 0) | {1, 3, 5, 7, 41} | set(range(51, 70, 2))
KEY = 2  # the id of the key's column, whatever it is called
_MOR, _COW = "merge-on-read", "copy-on-write"
BY = {"bucket": "bucket(4, email)", "truncate": "truncate(3, email)", "identity": "email", "unpartitioned": ""}


def mail(n: int) -> str:
    """Short ones, ones too long for a bound, the least and the greatest, and ones with strange letters."""
    if n < 20:
        return f"p{n:03}@example.org"
    if n < 40:
        return f"a-long-name-that-bounds-cut-{n:03}@example.org"
    if n in (40, 41):
        return ("!first@example.org", "~zu\u00f6berst@example.org")[n - 40]
    return f"{n:03}-o'brien+\u0448\"%2F@example.org"


@dataclass
class Erasable:
    """One table, and how it was before its people were forgotten."""

    lake: SmallLake
    name: str
    gone: frozenset[Any]
    field_id: int = KEY

    def sql(self, statement: str) -> list[Any]:
        """Run a statement on Spark, with {t} for the table."""
        return list(self.lake.warden.ground.spark.sql(statement.replace("{t}", f"main.{self.name}")).collect())

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(self.name)

    @property
    def folder(self) -> Path:
        return local(self.table.metadata.location)

    @property
    def metadata(self) -> dict[str, Any]:
        return read_metadata(self.table.metadata_location)

    @property
    def versions(self) -> dict[str, Version]:
        return versions(self.table.metadata_location)

    @property
    def erased(self) -> Erased:
        """What must be nowhere. To be asked for before the erasure: it tells who stays by what lies there."""
        return Erased(self.field_id, self.gone, frozenset(physical(self.folder, self.field_id) - self.gone))

    def traces(self, erased: Erased) -> list[Trace]:
        return traces(self.folder, [erased])

    def insert(self, people: Sequence[int], branch: str = "", copies: int = 2) -> None:
        """Rows of people, as a reader that knows the table's columns writes them."""
        names = [field["name"] for field in self._columns]
        rows = [self._row(n, copy, names) for n in people for copy in range(copies)]
        view = f"rows_{uuid.uuid4().hex}"
        self.lake.warden.ground.spark.session().createDataFrame(
            [tuple(row[name] for name in names) for row in rows], ", ".join(f"{n} {KINDS[n]}" for n in names)
        ).createOrReplaceTempView(view)
        self.sql(f"INSERT INTO {{t}}{branch} SELECT * FROM {view}")

    def _row(self, n: int, copy: int, names: Sequence[str]) -> dict[str, Any]:
        told = {"id": n + 1000 * copy, "email": mail(n), "mail": mail(n), "amount": n, "city": f"city {n % 5}"}
        return {"note": f"note {n % 4}", **told, "user": (f"nick{n % 7}", n)}

    @property
    def _columns(self) -> list[dict[str, Any]]:
        document = self.metadata
        (schema,) = [s for s in document["schemas"] if s["schema-id"] == document["current-schema-id"]]
        return list(schema["fields"])

    def evolve(self) -> None:
        """Another name for the key, a column more, one less, a wider one, and other partitions."""
        if self.metadata["format-version"] > 2:
            self.sql("ALTER TABLE {t} RENAME COLUMN email TO mail")
            self.sql("ALTER TABLE {t} ADD COLUMN note STRING")
            self.sql("ALTER TABLE {t} DROP COLUMN city")
            self.sql("ALTER TABLE {t} ALTER COLUMN amount TYPE BIGINT")
            self.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
            return
        from pyiceberg.transforms import BucketTransform
        from pyiceberg.types import LongType, StringType

        with self.table.update_schema() as change:
            change.rename_column("email", "mail")
            change.add_column("note", StringType())
            change.delete_column("city")
            change.update_column("amount", LongType())
        with self.table.update_spec() as change:
            change.add_field("id", BucketTransform(2))

    def delete_by_equality(self, people: Sequence[int]) -> None:
        """Delete people as Flink would, by a file that holds their keys."""
        spec = unpartitioned(self.table)
        keys = sorted(mail(n) for n in people)
        bounds = {"lower_bounds": {KEY: keys[0].encode()}, "upper_bounds": {KEY: keys[-1].encode()}}
        rows = column_of("mail", pa.string(), KEY, keys)
        commit_deletes(self.table, equality_deletes(self.table, rows, [KEY], spec, bounds))

    def litter(self) -> None:
        """What others have left: a metadata file of a lost race, and a data file that was never committed."""
        old = time.time() - 30 * 86400
        data = next(path for path in self.folder.rglob("*.parquet") if "data" in path.parts)
        planted = {
            local(self.table.metadata_location): self.folder / "metadata" / f"00999-{uuid.uuid4()}.metadata.json",
            data: self.folder / "data" / "never-committed.parquet",
        }
        for source, target in planted.items():
            shutil.copyfile(source, target)
            os.utime(target, (old, old))


KINDS = {
    "id": "BIGINT",
    "email": "STRING",
    "mail": "STRING",
    "amount": "BIGINT",
    "city": "STRING",
    "note": "STRING",
    "user": "STRUCT<nick: STRING, age: INT>",
}


def well_used(lake: SmallLake, format: str, by: str) -> Erasable:
    """A table of a format (`v1-upgraded`, `v2`, `v3`), partitioned by its key in some way, after a long life."""
    made = Erasable(lake, f"crm.{format.replace('-', '_')}_{by}", frozenset(mail(n) for n in GONE))
    version = format[1]
    partitioned = f"PARTITIONED BY ({BY[by]})" if BY[by] else ""
    made.sql(
        "CREATE TABLE {t} (id BIGINT, email STRING, amount INT, city STRING, user STRUCT<nick: STRING, age: INT>) "
        f"USING iceberg {partitioned} TBLPROPERTIES ('format-version' = '{version}', "
        f"'write.summary.partition-limit' = '1000', 'write.delete.mode' = '{_COW if version == '1' else _MOR}')"
    )
    made.insert(PEOPLE)
    made.sql("ALTER TABLE {t} CREATE TAG first RETAIN 400 DAYS")
    if version == "1":
        made.sql("DELETE FROM {t} WHERE id % 10 = 4")  # by rewriting: entries stay behind as DELETED
        made.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = '{_MOR}')")
    made.evolve()
    made.insert([2, 3, 8, 9, 41, 50])
    made.sql("ALTER TABLE {t} CREATE BRANCH audit WITH SNAPSHOT RETENTION 3 SNAPSHOTS 100 DAYS")
    made.sql("DELETE FROM {t} WHERE id % 1000 IN (2, 3, 6, 11, 40, 42)")
    made.insert([4, 13], branch=".branch_audit", copies=1)
    if format == "v2":
        made.delete_by_equality([8, 9, 41, 45])
        made.insert([8, 45], copies=1)
    made.sql("ALTER TABLE {t} CREATE TAG second")
    return made
