"""An archive that is filled without a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.engine.catalog.snapshot_removal import SEQUENCE, stamp_property
from lakewarden.features.sequence.archives import ArchiveTable
from lakewarden.features.sequence.checksums import Checksums, in_lake
from lakewarden.features.sequence.columns import PARTITION
from lakewarden.features.sequence.stamps import Copied
from tests.small_lake import SmallLake

NAME, SOURCE = "archive.orders", "shop.orders"
PERSON = "anna@x"
SCHEMA = Schema(
    NestedField(1, "id", LongType()), NestedField(2, "email", StringType()), NestedField(3, PARTITION, StringType())
)


class Archive:
    """One table in a lake, with the partitions that a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.lake = SmallLake(folder)
        self.lake.catalog.create_namespace("archive")
        spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), PARTITION))
        self.lake.catalog.create_table(NAME, SCHEMA, partition_spec=spec)

    @property
    def iceberg(self) -> Any:
        return self.lake.catalog.load_table(NAME)

    @property
    def table(self) -> ArchiveTable:
        ground = self.lake.warden.ground
        return ArchiveTable(ground, ground.tables.name(NAME), SOURCE)

    def copy(self, partition: str, rows: dict[int, str], again: bool = False) -> None:
        """One commit with a stamp, and the property that goes with it."""
        table, archive = self.iceberg, self.table
        data = pa.table(
            {"id": [*rows], "email": [*rows.values()], PARTITION: [partition] * len(rows)}, table.schema().as_arrow()
        )
        sums = in_lake(data.to_batches(), ["id"], archive.columns(["id", "email"]))
        bounds, compare_by = ((min(rows),), (max(rows) + 1,)), ("id",) if again else ()
        replaced: tuple[Checksums, ...] = ()
        if again:
            columns = archive.columns(["id", "email"])
            replaced = archive.stamps[partition].copied.and_earlier(archive.checksums(partition, ["id"], columns))
        stamp = Copied(partition, *bounds, sums.rows, sums.sums, compare_by, replaced=replaced)
        key = f"{SEQUENCE}{SOURCE}.{partition}"
        if again:
            only = f"{PARTITION} == '{partition}'"
            table.overwrite(data, overwrite_filter=only, snapshot_properties={key: stamp.text})
        else:
            table.append(data, snapshot_properties={key: stamp.text})
        self.set_property(key, stamp_property(self.iceberg.current_snapshot(), stamp.text))

    def set_property(self, key: str, text: str) -> None:
        with self.iceberg.transaction() as change:
            change.set_properties({key: text})

    def rewrite(self, partition: str, rows: dict[int, str]) -> None:
        """Another engine writes the rows of a partition to other files."""
        table, where = self.iceberg, [partition] * len(rows)
        data = pa.table({"id": [*rows], "email": [*rows.values()], PARTITION: where}, table.schema().as_arrow())
        table.overwrite(data, overwrite_filter=f"{PARTITION} == '{partition}'")

    def purge(self, value: str = PERSON) -> None:
        self.lake.warden.erasure.request(NAME, key="email", value=[value])
        self.lake.warden.erasure.purge(NAME).apply()

    def expire(self) -> None:
        """Anybody's expiry: all but main's head."""
        table = self.iceberg
        head = table.current_snapshot().snapshot_id
        with table.maintenance.expire_snapshots() as expiry:
            expiry.by_ids([each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != head])

    def expire_as_retention(self) -> None:
        self.lake.warden.retention.expire(NAME, keep_days=0, keep_last=1).apply()
