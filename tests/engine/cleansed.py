"""A table of people with many versions, and what must be true of it once some of them are forgotten.

Which files hold whom is found out here by reading every file, not by the product's own search.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat

from lakewarden.engine.commit.abandoned_files import staging_folder
from lakewarden.engine.commit.shortened_log import ShortenedLog
from lakewarden.engine.files.live_files import Files
from lakewarden.engine.files.manifests import Manifests
from lakewarden.engine.files.written_files import layout_for
from lakewarden.engine.history.replace_files import ReplaceFiles
from lakewarden.engine.history.replacement import Cleansed, Replacement
from lakewarden.engine.kernel.messages import MIB, Drop
from lakewarden.engine.kernel.task import pack
from lakewarden.engine.rewrite.driver import Rewriter
from lakewarden.engine.storage.storage import Storage
from tests.deletes_by_hand import commit_deletes
from tests.engine.direct_commits import DirectCommits
from tests.engine.lakes import STAMP, unfenced

PEOPLE = pa.schema([("id", pa.int64()), ("email", pa.string())])
PATH, POSITION = 2147483546, 2147483545


def local(location: str) -> Path:
    """The path of a file, as it is spelled: values in names of folders are percent-encoded there, too."""
    return Path(location.removeprefix("file://").removeprefix("file:"))


def email(who: int) -> str:
    return f"person{who}@example.org"


class People:
    """One table, as an outside writer has it and as a cleansing leaves it."""

    def __init__(self, warden: Any, name: str = "crm.people") -> None:
        self.warden, self.name = warden, name

    def create(self, format: int = 2, **options: Any) -> People:
        self.catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
        properties = {"format-version": str(format), **options.pop("properties", {})}
        self.catalog.create_table(self.name, PEOPLE, properties=properties, **options)
        return self

    @property
    def catalog(self) -> Any:
        return self.warden.ground.catalogs.get("main")

    @property
    def table(self) -> Any:
        return self.catalog.load_table(self.name)

    @property
    def refs(self) -> dict[str, int]:
        return {name: ref.snapshot_id for name, ref in self.table.metadata.refs.items()}

    def append(self, ids: Iterable[int], who: Callable[[int], int] = lambda id: id % 10, branch: str = "main") -> int:
        """One file of rows, each of the person that `who` tells."""
        rows = list(ids)
        table = self.table
        content = pa.table({"id": rows, "email": [email(who(id)) for id in rows]}, schema=PEOPLE)
        if len(table.schema().fields) == 2 and table.schema().fields[1].name == "email":
            table.append(content, branch=branch)
        else:
            names = table.schema().as_arrow().names
            table.append(pa.table({names[0]: content["id"], names[1]: content["email"]}), branch=branch)
        return int(self.refs[branch])

    def tag(self, name: str, at: int | None = None, **settings: Any) -> None:
        with self.table.manage_snapshots() as manage:
            manage.create_tag(at or self.refs["main"], name, **settings)

    def branch(self, name: str, at: int | None = None, **settings: Any) -> None:
        with self.table.manage_snapshots() as manage:
            manage.create_branch(at or self.refs["main"], name, **settings)

    def rows(self, ref: str | int) -> list[tuple[Any, ...]]:
        """What PyIceberg reads at a ref or snapshot, under that version's own schema."""
        table = self.table
        at = self.refs[ref] if isinstance(ref, str) else ref
        return sorted(tuple(row.values()) for row in table.scan(snapshot_id=at).to_arrow().to_pylist())

    def all_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        return {ref: self.rows(ref) for ref in self.refs}

    def files(self, ref: str | int = "main") -> Any:
        table = self.table
        at = self.refs[ref] if isinstance(ref, str) else ref
        return Files(Manifests()).of(table, table.snapshot_by_id(at))

    def delete(
        self,
        positions: Mapping[str, Iterable[int]],
        branch: str = "main",
        for_one: bool | None = None,
        told: bool = False,
        extra: Mapping[str, Any] | None = None,
        partition: Any = None,
    ) -> str:
        """Commit one file of position deletes on a branch, as a writer of v2 does; answers with its path."""
        table = self.table
        data = self.files(branch).by_path
        like = data[next(iter(positions))]
        rows = sorted((path, at) for path, places in positions.items() for at in places)
        path = f"{table.metadata.location}/data/{secrets.token_hex(6)}-deletes.parquet"
        fields = [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION)}),
        ]
        columns: list[Any] = [[name for name, _ in rows], [at for _, at in rows]]
        for name, values in (extra or {}).items():
            fields.append(pa.field(name, values.type))
            columns.append(values)
        pq.write_table(pa.table(columns, schema=pa.schema(fields)), local(path))
        names = sorted(positions, key=str.encode)
        bounds = {} if for_one is None and not told else {PATH: names[0].encode()}
        file = DataFile.from_args(
            _table_format_version=3,
            content=DataFileContent.POSITION_DELETES,
            file_path=path,
            file_format=FileFormat.PARQUET,
            partition=like.record if partition is None else partition,
            record_count=len(rows),
            file_size_in_bytes=local(path).stat().st_size,
            lower_bounds=bounds,
            upper_bounds={key: names[-1].encode() for key in bounds},
            referenced_data_file=names[0] if told else None,
        )
        file.spec_id = like.partition[0]
        commit_deletes(table, file, branch)
        return path

    def dirty_files(self, erased: Collection[str]) -> tuple[dict[str, Any], set[str]]:
        """Data files with rows of the erased: those that refs lead to, and the others."""
        table = self.table
        named, others = dict[str, Any](), set[str]()
        heads = {ref.snapshot_id for ref in table.metadata.refs.values()}
        for snapshot in table.metadata.snapshots:
            for file in self.files(snapshot.snapshot_id).bare:
                if not set(pq.read_table(local(file.path)).column(1).to_pylist()).isdisjoint(erased):
                    if snapshot.snapshot_id in heads:
                        named[file.path] = file
                    else:
                        others.add(file.path)
        return named, others - named.keys()

    def rewritten(self, erased: Collection[str], **what: Any) -> ReplaceFiles:
        """Files without the rows of the erased, ready to take the place of those with them."""
        table = self.table
        named, others = self.dirty_files(erased)
        ground = self.warden.ground
        rewriter = Rewriter(_no_spark, ground.settings.lake("main"), Storage(ground.stores["main"]))
        drop = Drop(2, pack(pa.array(sorted(erased), pa.string())))
        folder = f"{staging_folder(table, STAMP)}/{secrets.token_hex(4)}"
        layout = layout_for(table, 512 * MIB, "full", 512 * MIB)
        made = rewriter.rewrite_each(table, list(named.values()), [drop], layout, folder, lambda done, whole: None)
        replacements = {path: Replacement(path, one.file, one.dropped) for path, one in made.items()}
        uuid = str(table.metadata.table_uuid)
        return ReplaceFiles(f"main.{self.name}", uuid, replacements, frozenset(others), **what)

    def commits(self) -> DirectCommits:
        return DirectCommits(self.warden.ground.tables, unfenced, STAMP, Manifests(), sleep=lambda _: None)

    def cleanse(self, change: ReplaceFiles, about_to: Callable[[Sequence[str]], None] = lambda paths: None) -> Cleansed:
        done = self.commits().publish(replace(change, about_to=about_to))
        assert done is not None
        return done

    def forget(self, *who: int) -> Cleansed:
        """Forget people, see that every ref has all other rows, and that what is gone can go."""
        erased = {email(number) for number in who}
        before = self.all_rows()
        done = self.cleanse(self.rewritten(erased))
        uuid = str(self.table.metadata.table_uuid)
        assert self.commits().publish(ShortenedLog(f"main.{self.name}", uuid, done.superseded)) == 0
        self.remove(done.superseded)
        assert self.all_rows() == {ref: [row for row in rows if row[1] not in erased] for ref, rows in before.items()}
        self.look_at_metadata()
        assert all(local(entry.metadata_file).exists() for entry in self.table.metadata.metadata_log)
        assert self.orphans() == set()
        return done

    def remove(self, paths: Iterable[str]) -> None:
        """Delete files as a purge does; each is one that was there, but for metadata that went before."""
        for path in paths:
            local(path).unlink(missing_ok=path.endswith(".metadata.json"))

    def look_at_metadata(self) -> None:
        """What readers of any kind rely on."""
        table = self.table
        metadata = table.metadata
        ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
        assert {ref.snapshot_id for ref in metadata.refs.values()} <= ids
        log = metadata.snapshot_log
        assert {entry.snapshot_id for entry in log} <= ids
        times = [entry.timestamp_ms for entry in log]
        assert times == sorted(times)
        assert log[-1].snapshot_id == metadata.current_snapshot_id
        assert metadata.last_updated_ms >= times[-1]
        earlier = [entry.timestamp_ms for entry in metadata.metadata_log]
        assert earlier == sorted(earlier) and max(earlier, default=0) <= metadata.last_updated_ms
        for snapshot in metadata.snapshots:
            self.look_at_snapshot(snapshot)

    def look_at_snapshot(self, snapshot: Any) -> None:
        """Totals are what manifests come to, and sequence numbers are all told."""
        is_ours = STAMP.operation in (snapshot.summary.additional_properties.get("lakewarden.operation") or "")
        totals = dict.fromkeys(("data-files", "delete-files", "records", "position-deletes"), 0)
        with local(snapshot.manifest_list).open("rb") as stream:
            manifests: list[Any] = list(fastavro.reader(stream))
        for manifest in manifests:
            with local(manifest["manifest_path"]).open("rb") as stream:
                entries: list[Any] = list(fastavro.reader(stream))
            live = [entry for entry in entries if entry["status"] != 2]
            assert manifest.get("content", 0) or manifest["existing_files_count"] == sum(
                e["status"] == 0 for e in entries
            )
            if is_ours:
                assert len(live) == len(entries) > 0
                assert manifest.get("sequence_number", 0) <= (snapshot.sequence_number or 0)
            for entry in live:
                file = entry["data_file"]
                assert local(file["file_path"]).stat().st_size == file["file_size_in_bytes"]
                deletes = file.get("content", 0)
                totals["delete-files" if deletes else "data-files"] += 1
                totals["position-deletes" if deletes else "records"] += file["record_count"]
        if is_ours:
            told = snapshot.summary.additional_properties
            assert {what: int(told[f"total-{what}"]) for what in totals} == totals
            assert snapshot.parent_snapshot_id is None
            assert not [key for key in told if key.startswith("partitions.") or key == "changed-partition-count"]

    def orphans(self) -> set[Path]:
        """Files that nothing leads to."""
        table = self.table
        found = {table.metadata_location, *(entry.metadata_file for entry in table.metadata.metadata_log)}
        found |= {told.statistics_path for told in (*table.metadata.statistics, *table.metadata.partition_statistics)}
        for snapshot in table.metadata.snapshots:
            found.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(table.io):
                found.add(manifest.manifest_path)
                found |= {e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io, discard_deleted=True)}
        return self.on_disk() - {local(location) for location in found}

    def on_disk(self) -> set[Path]:
        """Every file of the table."""
        folder = local(self.table.metadata.location)
        return {path for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc"}


def _no_spark() -> Any:
    raise AssertionError("Spark was started for a little work")
