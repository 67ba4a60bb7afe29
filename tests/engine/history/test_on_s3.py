"""A cleansing of a table whose files are on a real S3 server: rewritten by this process, with the lake's own keys."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.files.unreachable import still_unreachable
from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.history.replace_files import ReplaceFiles
from lakewarden.engine.history.replacement import Replacement
from lakewarden.engine.kernel.messages import MIB, Drop
from lakewarden.engine.kernel.task import pack
from lakewarden.engine.rewrite.driver import Rewriter
from lakewarden.engine.storage.storage import Storage
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, unfenced
from tests.small_lake import SmallLake

pytestmark = [pytest.mark.spark, pytest.mark.own_processes]  # the server is Java


def test_on_s3(on_s3: SmallLake) -> None:
    name, ground = "crm.people", on_s3.warden.ground
    on_s3.catalog.create_namespace("crm")
    table = on_s3.catalog.create_table(name, pa.schema([("id", pa.int64()), ("email", pa.string())]))
    for start in (0, 50):
        ids = list(range(start, start + 50))
        table.append(pa.table({"id": ids, "email": [f"person{id % 10}@example.org" for id in ids]}))
        with table.manage_snapshots() as manage:
            manage.create_tag(table.current_snapshot().snapshot_id, f"v{start}")
    table = on_s3.catalog.load_table(name)
    storage = Storage(ground.stores["main"])

    def no_spark() -> None:
        raise AssertionError("Spark was started for a little work")

    rewriter = Rewriter(no_spark, ground.settings.lake("main"), storage)  # type: ignore[arg-type]
    files = Files(Manifests()).of(table, table.current_snapshot()).data
    drop = Drop(2, pack(pa.array(["person3@example.org"])))
    layout, folder = layout_for(table, 512 * MIB, "full", 512 * MIB), f"{staging_folder(table, STAMP)}/s3"
    made = rewriter.rewrite_each(table, files, [drop], layout, folder, lambda done, whole: None)
    for path, one in made.items():
        assert one.sha256_before == hashlib.sha256(storage.read(path)).hexdigest()
        assert one.file is not None
        assert one.sha256_after == hashlib.sha256(storage.read(one.file.file_path)).hexdigest()
    replacements = {path: Replacement(path, one.file, one.dropped) for path, one in made.items()}
    commits = DirectCommits(ground.tables, unfenced, STAMP, Manifests())
    uuid = str(table.metadata.table_uuid)
    done = commits.publish(ReplaceFiles(f"main.{name}", uuid, replacements))
    assert done is not None and done.refs.keys() == {"main", "v0", "v50"}
    table = on_s3.catalog.load_table(name)
    gone = still_unreachable(table, done.superseded)
    assert sorted(gone) == sorted(done.superseded)
    assert storage.delete_all(gone).failed == ()
    for ref, rows in {"main": 90, "v0": 45, "v50": 90}.items():
        found = table.scan(snapshot_id=table.metadata.refs[ref].snapshot_id).to_arrow()
        assert found.num_rows == rows and "person3@example.org" not in found["email"].to_pylist()
