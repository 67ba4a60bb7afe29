"""The stages of a comparison travel by value: they run where there is no Lakewarden."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle

from lakewarden.engine.kernel import compare_task
from lakewarden.engine.kernel.compare_messages import Compared, Part
from lakewarden.engine.kernel.compare_task import Report, fetching, over_rows, pairing, reading, settling
from lakewarden.engine.spark.session import send_by_value

EXECUTOR = """
import pickle, sys
sys.modules["lakewarden"] = None
import pyarrow as pa
read, *stages = pickle.load(open(sys.argv[1], "rb"))
rows = list(read([pa.RecordBatch.from_pydict({"id": [0]})]))
for stage in stages:
    rows = list(stage(rows))
with open(sys.argv[2], "wb") as out:
    pickle.dump([row.column("content")[0].as_py() for row in rows if row.column("is_report")[0].as_py()], out)
"""


def test_without_lakewarden(tmp_path: Path) -> None:
    fields = [
        pa.field(n, t, metadata={"PARQUET:field_id": i})
        for n, t, i in (("id", pa.int64(), "1"), ("v", pa.string(), "2"))
    ]
    schema = pa.schema(fields)
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    pq.write_table(pa.table([[1, 2, 3], ["a", "b", "c"]], schema=schema), old)
    pq.write_table(pa.table([[1, 2, 4], ["a", "x", "d"]], schema=schema), new)
    parts = [
        Part(0, str(old), 3, old.stat().st_size, "compare", {"from": ()}),
        Part(1, str(new), 3, new.stat().st_size, "compare", {"to": ()}),
    ]
    target = bytes(schema.serialize())
    compared = Compared({"from": target, "to": target}, width=2, key=(0,))
    for module in compare_task.modules():
        send_by_value(module)
    stages = [over_rows(stage, 10) for stage in (settling(compared), fetching(parts, compared), pairing(compared))]
    code = tmp_path / "code"
    code.write_bytes(cloudpickle.dumps([reading([parts], compared), *stages]))  # type: ignore[no-untyped-call]
    subprocess.run([sys.executable, "-c", EXECUTOR, str(code), str(tmp_path / "out")], check=True)
    whole = Report()
    for content in cloudpickle.loads((tmp_path / "out").read_bytes()):
        whole.add(Report.from_bytes(content), 10)
    assert whole.failure is None
    assert (whole.tally.added, whole.tally.removed, whole.tally.changed) == (1, 1, 1)
    assert whole.counted.files == 2
