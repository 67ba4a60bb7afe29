"""Which files and versions hold rows of key values: over shared history, changed schemas, deletes and odd files."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType

from lakewarden.engine.rows.search import Searched, search
from lakewarden.engine.storage.storage import StoredFiles
from lakewarden.errors import BrokenTable, LakewardenError
from lakewarden.records.erasure import HiddenKey
from tests.engine.lakes import Lake, lake, local
from tests.features.compaction.compacted import Compactable
from tests.small_lake import SmallLake

__all__ = ["lake"]

ID, EMAIL = 1, 2
NO_BOUNDS: dict[str, Any] = {"lower_bounds": {}, "upper_bounds": {}}
PLAIN = Schema(NestedField(ID, "id", LongType()), NestedField(EMAIL, "email", StringType()))


class Opened(StoredFiles):
    """Files of a lake, and how often each was opened."""

    def __init__(self, lake: Lake) -> None:
        super().__init__(lake.warden.ground.stores["main"])
        self.times: Counter[str] = Counter()

    def open(self, location: str) -> Any:
        self.times[location] += 1
        return super().open(location)


class Kept:
    """A table whose data files are put together by the tests themselves, so that they can be any there are."""

    def __init__(self, lake: Lake, schema: Schema, *fields: PartitionField, name: str = "crm.kept", **told: str):
        self.lake, self.name = lake, name
        lake.catalog.create_namespace_if_not_exists("crm")
        lake.catalog.create_table(name, schema, partition_spec=PartitionSpec(*fields), properties=told)
        self.storage = Opened(lake)

    @property
    def table(self) -> Any:
        return self.lake.catalog.load_table(self.name)

    def add(
        self, rows: Sequence[dict[str, Any]], partition: Sequence[Any] = (), writing: Any = None, **told: Any
    ) -> str:
        """Commit a file of some rows, and answer with its path; `told` is what the metadata shall say instead."""
        table = self.table
        path: str = told.pop("path", f"{table.metadata.location}/data/{uuid.uuid4().hex}.parquet")
        local(path).parent.mkdir(parents=True, exist_ok=True)
        schema = table.schema()
        arrow = told.pop("arrow", schema_to_pyarrow(schema))
        pq.write_table(
            pa.Table.from_pylist(rows, schema=arrow), local(path), **{"store_schema": False} | (writing or {})
        )
        statistics = data_file_statistics_from_parquet_metadata(
            pq.read_metadata(local(path)),
            compute_statistics_plan(schema, table.metadata.properties),
            parquet_path_to_id_mapping(schema),
        )
        said = {
            "content": DataFileContent.DATA,
            "file_path": path,
            "file_format": FileFormat.PARQUET,
            "partition": Record(*partition),
            "file_size_in_bytes": local(path).stat().st_size,
            **statistics.to_serialized_dict(),
            **told,
        }
        file = DataFile.from_args(**said)
        file.spec_id = table.spec().spec_id
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            append.append_data_file(file)
        return path

    def search(self, *keys: HiddenKey, **options: Any) -> Searched:
        return search(self.table, keys, self.lake.warden.ground.files, self.storage, **options)


def emails(*values: str) -> HiddenKey:
    return HiddenKey(EMAIL, "string", values)


def people(*names: str | None) -> list[dict[str, Any]]:
    return [{"id": number, "email": name} for number, name in enumerate(names)]


def refs_at(kept: Kept, name: str, snapshot: int | None = None) -> int:
    """Tag the head, or another version."""
    table = kept.table
    at = snapshot or table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(at, name).commit()
    return int(at)


def matching(found: Searched) -> dict[str, int]:
    return {path: match.matching for path, match in found.matches.items()}


class TestVersions:
    def test_each_version_with_its_rows(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        first = kept.add(people("a", "b", None))
        one = refs_at(kept, "one")
        second = kept.add(people("b", "c", "b"))
        two = refs_at(kept, "two")
        kept.add(people("x", "y"))
        head = kept.table.current_snapshot().snapshot_id
        found = kept.search(emails("b", "nobody"))
        assert matching(found) == {first: 1, second: 2}
        assert found.snapshots == {one: 1, two: 3, head: 3}
        assert (found.listed, found.pruned, found.read) == (3, 1, 2)
        match = found.matches[first]
        assert (match.path, match.rows, match.content) == (first, 3, "data")
        assert match.bytes == local(first).stat().st_size
        assert 0 < found.bytes_read < sum(local(path).stat().st_size for path in (first, second)) * 2

    def test_a_version_without_a_match_is_none(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        kept.add(people("a", "c"))
        clean = refs_at(kept, "clean")
        kept.add(people("b"))
        found = kept.search(emails("b"))
        assert clean not in found.snapshots and len(found.snapshots) == 1
        assert found.tainted == frozenset()

    def test_each_file_and_manifest_is_read_once(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        paths = [kept.add(people("a", f"b{number}", "z")) for number in range(4)]
        for number in range(5):
            refs_at(kept, f"tag{number}")
        found = kept.search(emails("b0", "b1", "b2", "b3"))
        assert matching(found) == dict.fromkeys(paths, 1)
        assert kept.storage.times == Counter(paths)

    def test_only_some_versions(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        first = kept.add(people("a"))
        one = refs_at(kept, "one")
        kept.add(people("a"))
        assert matching(kept.search(emails("a"), only=[one])) == {first: 1}
        assert set(kept.search(emails("a"), only=[one]).snapshots) == {one}
        assert kept.search(emails("a"), only=[]).listed == 0

    def test_files_that_the_head_has_no_more(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        first = kept.add(people("a", "b"))
        one = refs_at(kept, "one")
        kept.table.delete("id >= 0")
        found = kept.search(emails("a"))
        assert matching(found) == {first: 1}
        assert found.snapshots == {one: 1}
        assert found.tainted == frozenset()  # the entry that says it was removed goes with the file

    def test_a_row_of_two_keys_counts_once(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        path = kept.add(people("a", "b", "c"))
        assert matching(kept.search(emails("a", "c"), HiddenKey(ID, "long", ["0", "1"]))) == {path: 3}

    def test_one_key_rules_a_file_out_and_the_other_does_not(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        path = kept.add(people("a", "b", "c"))
        assert matching(kept.search(emails("zzz"), HiddenKey(ID, "long", ["1"]))) == {path: 1}

    def test_nothing_to_look_for_and_nowhere_to_look(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        assert kept.search(emails("a")) == Searched({}, {}, frozenset(), 0, 0, 0, 0)
        kept.add(people("a"))
        assert kept.search().matches == kept.search(emails()).matches == {}
        assert kept.storage.times == Counter()

    def test_progress_is_told(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        for _ in range(3):
            kept.add(people("a"))
        kept.add(people("z"))
        told: list[tuple[int, int]] = []
        kept.search(emails("a"), progress=lambda done, total: told.append((done, total)))
        assert told == [(1, 3), (2, 3), (3, 3)]

    def test_format_v1(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN, **{"format-version": "1"})
        path = kept.add(people("a", "b"))
        found = kept.search(emails("a"))
        assert matching(found) == {path: 1} and found.matches[path].content == "data"
        with kept.table.transaction() as transaction:
            transaction.upgrade_table_version(2)
        other = kept.add(people("a", "a"))
        assert matching(kept.search(emails("a"))) == {path: 1, other: 2}


class TestSchemas:
    def test_a_key_that_was_renamed(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        old = kept.add(people("a"))
        with kept.table.update_schema() as change:
            change.rename_column("email", "mail")
        new = kept.add([{"id": 1, "mail": "a"}])
        assert matching(kept.search(emails("a"))) == {old: 1, new: 1}

    def test_a_key_that_was_dropped_and_made_again(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        old = kept.add(people("a"))
        with kept.table.update_schema() as change:
            change.delete_column("email")
        with kept.table.update_schema() as change:
            change.add_column("email", StringType())
        new = kept.add(people("a"))
        again = kept.table.schema().find_field("email").field_id
        assert again != EMAIL
        assert matching(kept.search(emails("a"))) == {old: 1}
        assert matching(kept.search(HiddenKey(again, "string", ["a"]))) == {new: 1}

    def test_a_key_that_older_files_have_not(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        kept.add(people("a"))
        with kept.table.update_schema() as change:
            change.add_column("phone", StringType())
        phone = kept.table.schema().find_field("phone").field_id
        new = kept.add([{"id": 1, "email": "b", "phone": "a"}])
        assert matching(kept.search(HiddenKey(phone, "string", ["a"]))) == {new: 1}

    def test_a_column_that_a_file_leaves_to_its_partition(self, lake: Lake) -> None:
        field = PartitionField(EMAIL, 1000, IdentityTransform(), "email")
        kept = Kept(lake, PLAIN, field)
        only_ids = schema_to_pyarrow(Schema(PLAIN.fields[0]))
        path = kept.add([{"id": 1}, {"id": 2}], ["a"], arrow=only_ids)
        kept.add([{"id": 1}], ["b"], arrow=only_ids)
        assert matching(kept.search(emails("a"))) == {path: 2}


class TestDeletes:
    def test_equality_deletes_that_hold_a_value(self, tmp_path: Path) -> None:
        with SmallLake(tmp_path / "lake") as small:
            small.create("db.t", appends=3)
            table = Compactable(small, "db.t")
            before = table.table.current_snapshot().snapshot_id
            table.delete_by_equality([3, 4])
            after = table.table.current_snapshot().snapshot_id
            ground = small.warden.ground
            found = search(table.table, [HiddenKey(1, "long", ["3"])], ground.files, ground.storage("main"))
            assert Counter(match.content for match in found.matches.values()) == {"data": 1, "equality-deletes": 1}
            assert found.snapshots[before] == found.snapshots[after] == 1  # rows, of data files
            other = search(table.table, [HiddenKey(2, "string", ["city 3"])], ground.files, ground.storage("main"))
            assert [match.content for match in other.matches.values()] == ["data"]

    def test_a_version_with_nothing_but_an_equality_delete_of_a_value(self, tmp_path: Path) -> None:
        with SmallLake(tmp_path / "lake") as small:
            small.create("db.t", appends=1)
            table = Compactable(small, "db.t")
            table.delete_by_equality([77])
            ground = small.warden.ground
            found = search(table.table, [HiddenKey(1, "long", ["77"])], ground.files, ground.storage("main"))
            assert [match.content for match in found.matches.values()] == ["equality-deletes"]
            assert found.snapshots == {table.table.current_snapshot().snapshot_id: 0}

    @pytest.mark.spark
    def test_format_v3_with_deletion_vectors(self, tmp_path: Path) -> None:
        with SmallLake(tmp_path / "lake") as small:
            small.create("db.t", format=3, appends=2)
            table = Compactable(small, "db.t")
            table.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
            table.sql("INSERT INTO {t} SELECT id, concat('city ', id) FROM range(100, 150, 1, 1)")
            table.sql("DELETE FROM {t} WHERE id = 120")
            assert [delete.is_vector for delete in table.files.deletes] == [True]
            ground = small.warden.ground
            found = search(table.table, [HiddenKey(2, "string", ["city 120"])], ground.files, ground.storage("main"))
            assert [match.matching for match in found.matches.values()] == [1]
            assert len(found.snapshots) == 2


class TestTaint:
    """Versions that tell of a value although no file of theirs is there to hold it."""

    def removed(self, lake: Lake, *fields: PartitionField, **told: Any) -> tuple[Kept, int]:
        """A table whose head says that a file was removed which no version has any more."""
        kept = Kept(lake, PLAIN, *fields)
        kept.add(people("k", "m"), told.pop("partition", ()), **told)
        old = kept.table.current_snapshot().snapshot_id
        kept.table.delete("id >= 0")
        kept.table.maintenance.expire_snapshots().by_id(old).commit()
        return kept, int(kept.table.current_snapshot().snapshot_id)

    def test_a_bound_of_a_file_that_is_gone(self, lake: Lake) -> None:
        kept, head = self.removed(lake)
        assert kept.search(emails("k")).tainted == kept.search(emails("m")).tainted == {head}
        assert kept.search(emails("l", "kk", "")).tainted == frozenset()
        assert kept.search(emails("k"), only=[1]).tainted == frozenset()

    @pytest.mark.parametrize(
        ("value", "is_told"),
        [
            ("abcdefghijklmnop-and-more@example.org", True),  # the lower bound is its beginning
            ("qrstuvwxyzabcdef-and-more@example.org", True),  # of the upper one the last character is raised
            ("abcdefghijklmno", False),
            ("abcdefghijklmnop", True),
            ("abcdefghijklmnoq-and-more@example.org", False),
        ],
    )
    def test_a_bound_that_was_cut(self, lake: Lake, value: str, is_told: bool) -> None:
        bounds = {
            "lower_bounds": {EMAIL: b"abcdefghijklmnop"},
            "upper_bounds": {EMAIL: b"qrstuvwxyzabcdeg"},
        }
        kept, head = self.removed(lake, **bounds)
        assert kept.search(emails(value)).tainted == ({head} if is_told else frozenset())

    def test_the_partition_of_a_file_that_is_gone(self, lake: Lake) -> None:
        field = PartitionField(EMAIL, 1000, IdentityTransform(), "email")
        kept, head = self.removed(lake, field, partition=["kate"], **NO_BOUNDS)
        kept.add(people("kate", "kate"), ["kate"])
        assert head in kept.search(emails("kate")).tainted
        assert kept.search(emails("mary", "k")).tainted == frozenset()

    @pytest.mark.parametrize("transform", [TruncateTransform(1), BucketTransform(500)], ids=str)
    def test_a_transformed_value_counts_where_no_row_stays_that_has_it(self, lake: Lake, transform: Any) -> None:
        part = transform.transform(StringType())("kate")
        kept, head = self.removed(lake, PartitionField(EMAIL, 1000, transform, "part"), partition=[part], **NO_BOUNDS)
        assert kept.search(emails("paul")).tainted == frozenset()
        assert kept.search(emails("kate")).tainted == {head}
        kept.add(people("kate", "kate"), [part])
        assert head in kept.search(emails("kate")).tainted  # for these do not stay
        kept.add(people("kate", "klaus"), [part])  # as if klaus were of the same
        assert kept.search(emails("kate")).tainted == frozenset()

    def test_a_summary_that_names_partitions(self, lake: Lake) -> None:
        schema = pa.schema([("id", pa.int64()), ("email", pa.string())])
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.named", schema, properties={"write.summary.partition-limit": "5"})
        with table.update_spec() as change:
            change.add_identity("email")
        table.append(pa.table({"id": [1, 2], "email": ["a b@example.org", "c"]}, schema=schema))
        head = table.current_snapshot()
        assert any(name.startswith("partitions.") for name in head.summary.additional_properties)
        ground = lake.warden.ground
        for value, is_told in (("a b@example.org", True), ("b", False)):
            found = search(lake.table("crm.named"), [emails(value)], ground.files, ground.storage("main"))
            assert found.tainted == ({head.snapshot_id} if is_told else frozenset())


class TestFaults:
    """Files that cannot be searched are told by name, and no message tells a value."""

    def refusal(self, kept: Kept, *values: str) -> LakewardenError:
        with pytest.raises(LakewardenError) as raised:
            kept.search(emails(*values))
        error = raised.value
        texts = [error.message, error.hint, repr(error), repr(error.__cause__)]
        if not error.__suppress_context__:
            texts.append(repr(error.__context__))
        assert not [text for text in texts for value in values if value in text]
        return error

    def test_another_format(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        path = kept.add(people("secret"), file_format=FileFormat.ORC)
        error = self.refusal(kept, "secret")
        assert isinstance(error, BrokenTable) and "ORC" in error.message and path in error.message

    def test_another_format_that_is_ruled_out_is_left_alone(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        kept.add(people("secret"), file_format=FileFormat.ORC)
        assert kept.search(emails("other")).matches == {}

    @pytest.mark.parametrize("damage", ["missing", "empty", "no parquet", "pages"])
    def test_a_damaged_file(self, lake: Lake, damage: str) -> None:
        kept = Kept(lake, PLAIN)
        path = kept.add(people(*(f"secret{number}" for number in range(1000))), writing={"write_page_checksum": True})
        file = local(path)
        content = file.read_bytes()
        if damage == "missing":
            file.unlink()
        elif damage == "empty":
            file.write_bytes(b"")
        elif damage == "no parquet":
            file.write_bytes(b"secret7" * 1000)
        else:
            half = len(content) // 2
            file.write_bytes(
                content[:half] + bytes(byte ^ 0xFF for byte in content[half : half + 40]) + content[half + 40 :]
            )
        error = self.refusal(kept, "secret7")
        assert isinstance(error, BrokenTable)
        assert path in error.message and error.hint
        assert ("is missing" in error.message) == (damage == "missing")

    def test_a_file_without_field_ids(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        kept.add(people("secret"), arrow=pa.schema([("id", pa.int64()), ("email", pa.string())]), **NO_BOUNDS)
        error = self.refusal(kept, "secret")
        assert "no field id" in error.message and "give the table a name mapping" in error.hint

    def test_a_file_without_field_ids_in_a_table_with_a_name_mapping(self, lake: Lake) -> None:
        """PyIceberg makes one by itself; then it is no help to ask for it."""
        kept = Kept(lake, PLAIN)
        path = f"{kept.table.metadata.location}/data/taken.parquet"
        local(path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"email": ["secret"], "id": [1]}), local(path))
        kept.table.add_files([path])
        error = self.refusal(kept, "secret")
        assert "no field id" in error.message and path in error.message
        assert "give the table" not in error.hint and "compaction compact --rewrite-all" in error.hint

    def test_a_column_of_another_type(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN)
        ids = [{b"PARQUET:field_id": b"1"}, {b"PARQUET:field_id": b"2"}]
        arrow = pa.schema([pa.field("id", pa.int64(), True, ids[0]), pa.field("email", pa.int64(), True, ids[1])])
        path = kept.add(people("secret"))
        pq.write_table(pa.table([[1], [77]], schema=arrow), local(path), store_schema=False)
        assert "cannot be read as string" in self.refusal(kept, "secret").message

    def test_a_path_that_tells_a_value(self, lake: Lake) -> None:
        kept = Kept(lake, PLAIN, PartitionField(EMAIL, 1000, IdentityTransform(), "email"))
        folder = f"{kept.table.metadata.location}/data/email=secret"
        path = kept.add(people("secret"), ["secret"], path=f"{folder}/one.parquet")
        local(path).unlink()
        error = self.refusal(kept, "secret")
        assert "email=*/one.parquet" in error.message


def test_rows_of_shared_manifests_count_for_each_version(lake: Lake) -> None:
    """What is told of each version is what reading each version's files one by one gives."""
    kept = Kept(lake, PLAIN)
    for number in range(6):
        kept.add(people(*(f"p{person}" for person in range(number, number + 4))))
        if number == 3:
            kept.table.delete("email == 'p1'")
    values = {"p1", "p4", "p8"}
    found = kept.search(emails(*values))
    by_hand = {
        snapshot.snapshot_id: sum(_held(task.file.file_path, values) for task in _tasks(kept.table, snapshot))
        for snapshot in kept.table.metadata.snapshots
    }
    assert found.snapshots == {snapshot: rows for snapshot, rows in by_hand.items() if rows}
    assert len(set(found.snapshots.values())) > 2


def _tasks(table: Any, snapshot: Any) -> Iterable[Any]:
    return table.scan(snapshot_id=snapshot.snapshot_id).plan_files()  # type: ignore[no-any-return]


def _held(path: str, values: set[str]) -> int:
    return sum(value in values for value in pq.read_table(local(path))["email"].to_pylist())


def test_a_second_search_for_the_same_values_opens_no_file_again(lake: Lake) -> None:
    """A purge searches right after its plan did, and files never change; new ones, and other values, are looked at."""
    kept = Kept(lake, PLAIN)
    paths = [kept.add(people("a", f"n{number}", "z")) for number in range(3)]
    first = kept.search(emails("n1"))
    assert matching(first) == {paths[1]: 1} and set(kept.storage.times.values()) == {1}
    kept.storage.times.clear()
    assert kept.search(emails("n1")) == first
    assert not kept.storage.times
    new = kept.add(people("a", "n1", "z"))
    assert matching(kept.search(emails("n1"))) == {paths[1]: 1, new: 1}
    assert kept.storage.times == Counter([new])
    kept.storage.times.clear()
    assert matching(kept.search(emails("n1", "n2"))) == {paths[1]: 1, paths[2]: 1, new: 1}
    assert kept.storage.times == Counter([*paths, new])


def test_a_struct_with_another_name_is_no_longer_looked_for_under_the_old_one() -> None:
    """Parquet takes schemas for equal that differ in the names of structs only."""
    from lakewarden.engine.rows.key_columns import _places_of

    def schema(struct: str) -> Any:
        inner = pa.struct([pa.field("email", pa.string(), metadata={"PARQUET:field_id": "2"})])
        field = pa.field(struct, inner, metadata={"PARQUET:field_id": "1"})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table([pa.array([], inner)], schema=pa.schema([field])), sink, store_schema=False)
        return pq.read_metadata(pa.BufferReader(sink.getvalue())).schema

    one, other = schema("user"), schema("person")
    assert one.equals(other)
    assert [_places_of(each)[2][1].path for each in (one, other, one)] == ["user.email", "person.email", "user.email"]
