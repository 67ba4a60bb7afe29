"""Tables that were never written: real metadata with any history, for tests of what is decided by metadata alone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import update_table_metadata

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
OPERATIONS = ("append", "append", "overwrite", "delete", "replace", "replace", "replace")


def millis(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


@dataclass
class History:
    """Snapshots, each built on an earlier one, and what points to them."""

    snapshots: list[dict[str, Any]] = field(default_factory=list)
    refs: dict[str, dict[str, Any]] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    log: list[int] = field(default_factory=list)
    """What main was, one after the other, where that matters."""

    def at(self, snapshot: int) -> int:
        return int(self.snapshots[snapshot - 1]["timestamp-ms"])

    def commit(
        self,
        age: timedelta,
        parent: int | None = None,
        operation: str = "append",
        schema: int | None = 0,
        summary: Mapping[str, str] | None = None,
    ) -> int:
        """Add a snapshot of this age, on the newest unless another parent is named."""
        number = len(self.snapshots) + 1
        built_on = parent if parent is not None else (number - 1 or None)
        self.snapshots.append(
            {
                "snapshot-id": number,
                **({"parent-snapshot-id": built_on} if built_on else {}),
                "sequence-number": number,
                "timestamp-ms": millis(NOW - age),
                "manifest-list": f"file:///lake/t/metadata/snap-{number}.avro",
                "summary": {"operation": operation, **(summary or {})},
                "schema-id": schema,
            }
        )
        return number

    def commits(self, count: int, oldest: timedelta, every: timedelta) -> History:
        for place in range(count):
            self.commit(oldest - place * every)
        return self

    def branch(self, name: str, at: int, **settings: int) -> History:
        return self._ref("branch", name, at, settings)

    def tag(self, name: str, at: int, **settings: int) -> History:
        return self._ref("tag", name, at, settings)

    def _ref(self, kind: str, name: str, at: int, settings: dict[str, int]) -> History:
        told = {key.replace("_", "-"): value for key, value in settings.items()}
        self.refs[name] = {"snapshot-id": at, "type": kind, **told}
        return self

    @property
    def table(self) -> Table:
        """The table with this history; main is at the newest snapshot unless a branch main was made."""
        if "main" not in self.refs and self.snapshots:
            self.branch("main", len(self.snapshots))
        main = self.refs.get("main", {}).get("snapshot-id")
        newest = max((s["timestamp-ms"] for s in self.snapshots), default=millis(NOW))
        document = {
            "format-version": 2,
            "table-uuid": str(uuid.UUID(int=7)),
            "location": "file:///lake/t",
            "last-sequence-number": len(self.snapshots),
            "last-updated-ms": newest,
            "last-column-id": 1,
            "current-schema-id": 0,
            "schemas": [
                {
                    "type": "struct",
                    "schema-id": schema,
                    "fields": [{"id": 1, "name": "id", "type": "long", "required": False, "doc": f"schema {schema}"}],
                }
                for schema in (0, 1)
            ],
            "default-spec-id": 0,
            "partition-specs": [{"spec-id": 0, "fields": []}],
            "last-partition-id": 999,
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self.properties,
            **({"current-snapshot-id": main} if main else {}),
            "snapshots": self.snapshots,
            "refs": self.refs,
            "snapshot-log": [{"snapshot-id": s, "timestamp-ms": self.at(s)} for s in self.log],
        }
        return as_table(TableMetadataUtil.parse_raw(json.dumps(document)))


class _Nowhere(NoopCatalog, MetastoreCatalog):
    """A catalog that holds nothing, of those whose metadata the client writes."""


def as_table(metadata: TableMetadata) -> Table:
    return Table(("sales", "t"), metadata, "file:///lake/t/metadata/00001.json", load_file_io({}), _Nowhere("main"))


def updated(table: Table, updates: tuple[Any, ...]) -> Table:
    """The table as these updates of its metadata leave it."""
    return as_table(update_table_metadata(table.metadata, updates))


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Any history: branches, tags with and without keep periods, rollbacks, compactions, several at one time."""
    made = History()
    age = timedelta(days=draw(st.integers(0, 400)))
    for number in range(draw(st.integers(1, 14))):
        parent = draw(st.sampled_from([None, None, *range(1, number + 1)])) if number else None
        made.commit(age, parent, draw(st.sampled_from(OPERATIONS)), draw(st.sampled_from([0, 0, 0, 1])))
        age = max(age - timedelta(hours=draw(st.sampled_from([0, 1, 24, 24 * 40]))), timedelta())
    places = st.integers(1, len(made.snapshots))
    made.branch("main", draw(places), **draw(_branch_settings))
    for name in draw(st.sets(st.sampled_from(["dev", "audit"]))):
        made.branch(name, draw(places), **draw(_branch_settings))
    for name in draw(st.sets(st.sampled_from(["v1", "v2", "eoy"]))):
        keep = draw(st.sampled_from([None, 1, 30, 500]))
        made.tag(name, draw(places), **({"max_ref_age_ms": keep * 86_400_000} if keep else {}))
    return made


_branch_settings = st.fixed_dictionaries(
    {},
    optional={
        "min_snapshots_to_keep": st.integers(1, 5),
        "max_snapshot_age_ms": st.sampled_from([3_600_000, 5 * 86_400_000, 200 * 86_400_000]),
    },
)
