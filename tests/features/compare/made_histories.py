"""Tables with made-up histories: every kind of change that a table of format v2 can go through without Spark."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _OverwriteFiles
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, StringType

from tests.deletes_by_hand import commit_deletes

FIRST = pa.schema(
    [
        ("id", pa.int32()),
        ("part", pa.int32()),
        ("name", pa.string()),
        ("amount", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("place", pa.struct([("x", pa.int32()), ("tag", pa.string())])),
        ("marks", pa.list_(pa.int32())),
        ("facts", pa.map_(pa.string(), pa.int32())),
    ]
)
AMOUNTS = (None, 0.0, -0.0, math.nan, 1.5, 2.5)
PRICES = (None, Decimal("0.00"), Decimal("1.10"), Decimal("1.11"), Decimal("99.99"))
Step = tuple[str, int]

rows = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.integers(0, 12)),
            "part": st.integers(0, 2),
            "name": st.sampled_from([None, "", "ann", "bob", "a name that is longer than eight bytes"]),
            "amount": st.sampled_from(AMOUNTS),
            "price": st.sampled_from(PRICES),
            "place": st.sampled_from([None, {"x": None, "tag": "t"}, {"x": 1, "tag": None}]),
            "marks": st.sampled_from([None, [], [1, 2], [2, 1], [None]]),
            "facts": st.sampled_from([None, [], [("a", 1), ("b", 2)], [("b", 2), ("a", 1)]]),
        }
    ),
    min_size=1,
    max_size=12,
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), rows),
        st.tuples(st.just("update"), st.integers(0, 2)),
        st.tuples(st.just("delete"), st.integers(0, 2)),
        st.tuples(st.just("mask"), st.integers(0, 1_000)),
        st.tuples(st.just("compact"), st.just(0)),
        st.tuples(st.sampled_from(["rename", "promote", "add", "drop", "replace", "nest"]), st.just(0)),
        st.tuples(st.just("branch"), st.just(0)),
        st.tuples(st.just("expire"), st.integers(0, 1_000)),
    ),
    min_size=1,
    max_size=7,
)


class _Replacing(_OverwriteFiles):
    """Commits as a `replace`, which PyIceberg does not know how to sum up."""

    def _summary(self, *arguments: Any, **options: Any) -> Summary:
        found = super()._summary(*arguments, **options)
        return Summary(Operation.REPLACE, **found.additional_properties)


class MadeHistory:
    """A table that goes through steps; every version is remembered by its snapshot."""

    def __init__(self, catalog: Any, name: str, first: list[dict[str, Any]]) -> None:
        self._catalog, self.name = catalog, name
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        catalog.create_table(name, FIRST, properties={"format-version": "2"})
        self._steps: dict[str, Callable[[Any], None]] = {
            "append": self.append,
            "update": self._update,
            "delete": self._delete,
            "mask": self._mask,
            "compact": self._compact,
            "rename": self._rename,
            "promote": self._promote,
            "add": self._add,
            "drop": self._drop,
            "replace": self._replace,
            "nest": self._nest,
            "branch": self._branch,
            "expire": self._expire,
        }
        self.append(first)

    @property
    def table(self) -> Any:
        return self._catalog.load_table(self.name)

    def go(self, steps: list[tuple[str, Any]]) -> None:
        for step, argument in steps:
            self._steps[step](argument)

    def versions(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.table.metadata.snapshots]

    def append(self, given: list[dict[str, Any]]) -> None:
        table = self.table
        schema = table.schema().as_arrow()
        is_replaced = pa.types.is_large_string(schema.field("marks").type)
        given = [{**row, "marks": str(row["marks"])} for row in given] if is_replaced else given
        fitted = [{field.name: row.get(field.name) for field in schema} for row in given]
        table.append(pa.Table.from_pylist(fitted, schema=schema))

    def _update(self, part: int) -> None:
        """Other values for some rows of a part, as copy-on-write does it."""
        table = self.table
        found = table.scan(row_filter=EqualTo(term="part", value=part)).to_arrow().to_pylist()
        text = next((f.name for f in table.schema().fields if isinstance(f.field_type, StringType)), None)
        for number, row in enumerate(found):
            if text is not None and number % 2 == 0:
                row[text] = f"changed {number % 3}"
        if found:
            table.overwrite(
                pa.Table.from_pylist(found, schema=table.schema().as_arrow()),
                overwrite_filter=EqualTo(term="part", value=part),
            )

    def _delete(self, part: int) -> None:
        table = self.table
        if table.scan(row_filter=EqualTo(term="part", value=part)).to_arrow().num_rows:
            table.delete(EqualTo(term="part", value=part))

    def _mask(self, seed: int) -> None:
        """Delete some rows of one file by position."""
        table = self.table
        tasks = sorted(table.scan().plan_files(), key=lambda task: task.file.file_path)
        if not tasks:
            return
        file = tasks[seed % len(tasks)].file
        positions = sorted({seed % file.record_count, (seed // 7) % file.record_count})
        commit_deletes(table, position_deletes(table, file, positions))

    def _compact(self, _: Any) -> None:
        """Rewrite all rows into one file, as a snapshot that changes none."""
        table = self.table
        tasks = list(table.scan().plan_files())
        live = table.scan().to_arrow()
        if not tasks or not live.num_rows:
            return
        with table.transaction() as transaction:
            producer = _Replacing(operation=Operation.OVERWRITE, transaction=transaction, io=table.io)
            for task in tasks:
                producer.delete_data_file(task.file)
            for file in _dataframe_to_data_files(table.metadata, live, table.io):
                producer.append_data_file(file)
            producer.commit()

    def _rename(self, _: Any) -> None:
        with self.table.update_schema() as update:
            update.rename_column(self._column(2), f"name_{secrets.token_hex(2)}")

    def _promote(self, _: Any) -> None:
        with self.table.update_schema() as update:
            update.update_column("id", LongType())
            update.update_column("amount", DoubleType())

    def _add(self, _: Any) -> None:
        with self.table.update_schema() as update:
            update.add_column(f"more_{secrets.token_hex(2)}", StringType())

    def _drop(self, _: Any) -> None:
        if len(self.table.schema().fields) > 4 and "price" in self.table.schema().column_names:
            with self.table.update_schema() as update:
                update.delete_column("price")

    def _replace(self, _: Any) -> None:
        """Drop a column and add another one of its name."""
        if "marks" in self.table.schema().column_names:
            with self.table.update_schema() as update:
                update.delete_column("marks")
            with self.table.update_schema() as update:
                update.add_column("marks", StringType())

    def _nest(self, _: Any) -> None:
        with self.table.update_schema() as update:
            update.add_column(("place", f"y_{secrets.token_hex(2)}"), LongType())

    def _branch(self, _: Any) -> None:
        table = self.table
        head = table.current_snapshot().snapshot_id
        table.manage_snapshots().create_branch(head, f"b_{secrets.token_hex(2)}").commit()

    def _expire(self, seed: int) -> None:
        """Forget one snapshot that nothing points to."""
        table = self.table
        named = {ref.snapshot_id for ref in table.metadata.refs.values()}
        free = [one for one in self.versions()[1:] if one not in named]
        if free:
            table.maintenance.expire_snapshots().by_id(free[seed % len(free)]).commit()

    def _column(self, field_id: int) -> str:
        found = self.table.schema().find_column_name(field_id + 1)
        return str(found)


def position_deletes(table: Any, data: DataFile, positions: list[int]) -> DataFile:
    """A file that deletes rows of one data file."""
    path = f"{table.metadata.location}/data/deletes-{secrets.token_hex(8)}.parquet"
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
            pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
        ]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([[data.file_path] * len(positions), positions], schema=schema), sink)
    content = sink.getvalue().to_pybytes()
    with table.io.new_output(path).create() as stream:
        stream.write(content)
    file = DataFile.from_args(
        _table_format_version=3,
        content=DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(positions),
        file_size_in_bytes=len(content),
        lower_bounds={2147483546: data.file_path.encode()},
        upper_bounds={2147483546: data.file_path.encode()},
    )
    file.spec_id = 0
    return file
