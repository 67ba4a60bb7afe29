"""A proof of erasure: what is left of a value is found wherever it is, and what only looks like one is not.

Covers `engine/proof/avro.py`, `engine/proof/compressed.py`, `engine/proof/documents.py`, `engine/proof/parquet.py`,
`engine/proof/result.py`, `engine/proof/survivors.py` and `engine/proof/texts.py`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import re
import zipfile
from collections import Counter
from collections.abc import Collection
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyiceberg.transforms import BucketTransform, TruncateTransform

import lakewarden
from lakewarden.engine.proof import object_reader
from lakewarden.engine.proof.scan import prove, size
from lakewarden.engine.proof.wanted import transformed, wanted_keys
from lakewarden.engine.storage.storage import StoredFiles
from lakewarden.records.erasure import HiddenKey
from tests.engine.proven import LONG_AGO, SCHEMA, Proven, people, rows, wheres, with_ids
from tests.features.erasure.people import with_people
from tests.small_lake import SmallLake

__all__ = ["people"]
GONE = "zoe@example.org"


def parquet(table: pa.Table, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(table, file, **options)
    return file.getvalue()


class TestClean:
    def test_nothing_is_left_of_what_never_was(self, people: Proven) -> None:
        proof = people.prove(GONE)
        assert proof.clean and not proof.places and not proof.young and not proof.not_read
        stored = [path for path in people.folder.rglob("*") if path.is_file()]
        assert proof.objects == len(stored) and proof.bytes == sum(path.stat().st_size for path in stored)
        assert proof.by_kind == {"data": 1, "manifest": 1, "manifest-list": 1, "metadata": 2}
        assert proof.snapshots == 1 and proof.metadata == people.table.metadata_location
        assert size(people.table, people.lake.warden.ground.storage("main")) == (proof.objects, proof.bytes)

    def test_progress_is_told_in_bytes(self, people: Proven) -> None:
        told: list[tuple[int, int]] = []
        proof = people.prove(GONE, progress=lambda done, total: told.append((done, total)))
        assert told[-1] == (proof.bytes, proof.bytes)
        assert [done for done, _ in told] == sorted(done for done, _ in told)

    def test_an_empty_table(self, lake: SmallLake) -> None:
        lake.catalog.create_namespace("crm")
        lake.catalog.create_table("crm.people", SCHEMA)
        assert Proven(lake).prove(GONE).clean


KEYS: list[tuple[str, str, str, Any]] = [
    ("id", "long", "4", 4),
    ("email", "string", "p4@example.org", "p4@example.org"),
    ("born", "date", "2000-01-05", date(2000, 1, 5)),
    ("number", "decimal(9, 2)", "4.50", Decimal("4.50")),
    ("code", "uuid", str(UUID(int=4)), UUID(int=4)),
    ("user.email", "string", "u4@example.org", "u4@example.org"),
]


class TestRows:
    @pytest.mark.parametrize(("column", "kind", "text", "value"), KEYS, ids=[key[0] for key in KEYS])
    def test_in_the_columns_of_live_files_by_type(
        self, lake: SmallLake, column: str, kind: str, text: str, value: Any
    ) -> None:
        proven = Proven(with_people(lake, rows=12))
        proof = proven.prove(text, column=column, kind=kind)
        assert wheres(proof) == [f"column {column}, 1 row"]
        (place,) = proof.places
        assert place.live and place.kind == "data" and place.version == ""
        assert not proven.prove(
            text.replace("4", "7") if kind != "uuid" else str(UUID(int=7)), column=column, kind=kind
        ).clean

    @pytest.mark.parametrize(("column", "kind", "text", "value"), KEYS, ids=[key[0] for key in KEYS])
    def test_smallest_and_largest(self, lake: SmallLake, column: str, kind: str, text: str, value: Any) -> None:
        proven = Proven(with_people(lake, rows=5))  # 4 is the largest
        proof = proven.prove(text, column=column, kind=kind)
        found = {f"column {column}, 1 row", f"statistics of column {column}"}
        assert set(wheres(proof)) - found <= {f"upper bound of column {column}"}
        assert found <= set(wheres(proof))

    def test_null_is_nobody(self, people: Proven) -> None:
        people.append(None, None)
        assert people.prove(GONE).clean

    def test_several_keys_and_widened_ones(self, people: Proven) -> None:
        keys = [HiddenKey(1, "int", ["77"]), HiddenKey(1, "long", ["1"]), HiddenKey(2, "string", ["anna@example.org"])]
        found = set(wheres(people.prove_keys(*keys)))
        assert {"column id, 1 row", "column email, 1 row"} <= found

    def test_after_a_column_was_renamed_and_another_took_its_name(self, people: Proven) -> None:
        with people.table.update_schema() as update:
            update.rename_column("email", "mail")
        with people.table.update_schema() as update:
            update.add_column("email", people.table.schema().find_type("note"))
        proof = people.prove("anna@example.org", column="mail")
        assert "column email, 1 row" in wheres(proof)
        assert people.prove("anna@example.org", column="email").by_kind["data"] == 1
        assert "column email, 1 row" not in wheres(people.prove("anna@example.org", column="email"))


class TestOrphans:
    @pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
    @pytest.mark.parametrize("dictionary", [True, False])
    def test_rows_of_files_that_nothing_leads_to(self, people: Proven, codec: str, dictionary: bool) -> None:
        people.put("data/orphan", parquet(rows("a@b.org", GONE), compression=codec, use_dictionary=dictionary))
        proof = people.prove(GONE)
        assert "column email, 1 row" in wheres(proof)
        assert all(place.object.endswith("/data/orphan") and not place.live for place in proof.places)

    def test_a_dictionary_with_an_entry_that_no_row_uses(self, people: Proven) -> None:
        email = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["a@b.org", GONE]))
        people.put("data/x.parquet", parquet(pa.table({"email": email}), compression="zstd"))
        assert wheres(people.prove(GONE)) == ["dictionary of column email"]

    def test_other_ids_and_names_that_the_key_once_had(self, people: Proven) -> None:
        with people.table.update_schema() as update:
            update.rename_column("email", "mail")
        content = rows("a@b.org", GONE)
        people.put("data/x.parquet", parquet(content.cast(with_ids(content.schema, 11)), compression="zstd"))
        assert "column email, 1 row" in wheres(people.prove(GONE, column="mail"))

    def test_in_hidden_folders_and_in_quarantine(self, people: Proven) -> None:
        content = parquet(rows(GONE), compression="zstd")
        people.put("_lakewarden/quarantine/op-1/files/000001-x.parquet", content, timedelta())
        people.put(".hidden/_temporary/y.parquet", content)
        proof = people.prove(GONE)
        assert {Path(place.object).name for place in proof.places} == {"000001-x.parquet", "y.parquet"}
        assert proof.young == []

    def test_young_ones_are_told_apart(self, people: Proven) -> None:
        content = parquet(rows(GONE), compression="zstd")
        young = people.put("data/young.parquet", content, timedelta(hours=2))
        people.put("data/old.parquet", content, timedelta(days=5))
        proof = people.prove(GONE)
        assert {Path(place.object).name for place in proof.places} == {"old.parquet"}
        assert {Path(place.object).name for place in proof.young} == {"young.parquet"}
        assert proof.youngest == datetime.fromtimestamp(young.stat().st_mtime, UTC)
        assert not people.prove(GONE, before=datetime.now(UTC)).young

    def test_position_deletes_with_rows(self, people: Proven) -> None:
        row = pa.struct([pa.field("email", pa.string(), metadata={"PARQUET:field_id": "2"})])
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
                pa.field("row", row, metadata={"PARQUET:field_id": "2147483544"}),
            ]
        )
        deletes = pa.Table.from_pylist([{"file_path": "x", "pos": 1, "row": {"email": GONE}}], schema=schema)
        people.put("data/deletes.parquet", parquet(deletes, compression="zstd"))
        proof = people.prove(GONE)
        assert "column row.email, 1 row" in wheres(proof)
        assert {place.kind for place in proof.places} == {"deletes"}

    def test_an_older_manifest_that_nothing_leads_to(self, people: Proven) -> None:
        manifest = next(people.folder.rglob("*-m0.avro"))
        people.put("metadata/left.avro", manifest.read_bytes())
        proof = people.prove("anna@example.org")
        assert {place.object.rpartition("/")[2] for place in proof.places if not place.live} == {"left.avro"}

    def test_avro_and_orc_data(self, people: Proven) -> None:
        schema = {
            "type": "record",
            "name": "row",
            "fields": [{"name": "mail", "type": ["null", "string"], "field-id": 2}],
        }
        file = io.BytesIO()
        fastavro.writer(file, schema, [{"mail": "a@b.org"}, {"mail": GONE}], codec="deflate")
        people.put("data/x.avro", file.getvalue())
        assert "column mail, 1 row" in wheres(people.prove(GONE))
        (people.folder / "data/x.avro").unlink()
        file = io.BytesIO()
        orc.write_table(rows("a@b.org", GONE), file, compression="zlib")
        people.put("data/x.orc", file.getvalue())
        assert "column email, 1 row" in wheres(people.prove(GONE))

    def test_names_of_files_and_of_empty_folders(self, people: Proven) -> None:
        people.put(f"data/{GONE}.txt", b"x")
        (people.folder / "data" / "zoe%40example.org").mkdir()
        proof = people.prove(GONE)
        assert wheres(proof) == ["name", "name"]
        assert GONE not in repr(proof) and "zoe%40" not in repr(proof)
        people.put("data/export-123456.bin", f" {GONE} ".encode())
        assert "123456" not in repr(people.prove(GONE, "123456"))

    def test_any_bytes(self, people: Proven) -> None:
        people.put("data/notes.bin", os.urandom(5_000_000) + f" {GONE} ".encode() + os.urandom(100))
        people.put("data/notes.gz", gzip.compress(f"see {GONE}.".encode()))
        proof = people.prove(GONE)
        assert wheres(proof) == ["bytes", "bytes"]
        assert {place.kind for place in proof.places} == {"other"}

    @pytest.mark.parametrize("content", [b"id,email\n", b"[1,", b'{"a": 1}', b"", b"x" * 3_000_000])
    def test_gzip_of_several_members(self, people: Proven, content: bytes) -> None:
        """As they come about when exports are joined; tools pad them with zeros."""
        told = gzip.compress(f"4,{GONE}\n".encode())
        people.put("data/export.csv.gz", gzip.compress(content) + b"\0\0" + told + b"\0" * 600_000)
        proof = people.prove(GONE)
        assert wheres(proof) == ["bytes"] and not proof.not_read
        assert people.prove("other@example.org").clean

    def test_gzip_that_grows_beyond_what_is_kept(self, people: Proven, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(object_reader, "_LARGEST_DOCUMENT", 1 << 20)
        lines = b'{"id": 1}\n' * 400_000 + f'{{"email": "{GONE}"}}\n'.encode()
        people.put("data/export.jsonl.gz", gzip.compress(lines))
        people.put("data/export.jsonl", lines)
        document = json.dumps({"zeros": "0" * (1 << 20), "properties": {"owner": GONE}})
        people.put("metadata/large.metadata.json.gz", gzip.compress(document.encode()))
        assert wheres(people.prove(GONE)) == ["bytes", "bytes", "bytes"]

    def test_gzip_that_is_not_whole_is_no_proof(self, people: Proven) -> None:
        whole = gzip.compress(os.urandom(3_000_000))
        people.put("data/cut.gz", whole[:-1])
        people.put("data/begun.gz", whole + whole[:5])
        people.put("data/more.gz", whole + b"and more")
        people.put("data/changed.gz", whole[:-8] + b"\0\0\0\0" + whole[-4:])
        people.put("data/whole.gz", whole)
        proof = people.prove(GONE)
        names = {Path(unread.object).name for unread in proof.not_read}
        assert names == {"cut.gz", "begun.gz", "more.gz", "changed.gz"}

    @pytest.mark.parametrize(
        ("name", "content", "form"),
        [
            ("x.zst", pa.compress(GONE.encode() * 9, "zstd", asbytes=True), "zstd"),
            ("x.bz2", bz2.compress(GONE.encode()), "bzip2"),
            ("x", bz2.compress(b""), "bzip2"),
            ("x.xz", lzma.compress(GONE.encode()), "xz"),
            ("x.csv.SNAPPY", pa.compress(GONE.encode() * 9, "snappy", asbytes=True), "snappy"),
            ("x.gz", gzip.compress(bz2.compress(GONE.encode())), "bzip2"),
            ("y.gz", gzip.compress(gzip.compress(GONE.encode())), "gzip"),
            ("z.gz", gzip.compress(parquet(rows(GONE), compression="zstd")), "parquet"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_other_compressed_files_are_not_looked_into(
        self, people: Proven, name: str, content: bytes, form: str
    ) -> None:
        people.put(f"data/{name}", content)
        (unread,) = people.prove("other@example.org").not_read
        assert Path(unread.object).name == name and form in unread.why and "not searched" in unread.why

    def test_an_archive_is_not_looked_into(self, people: Proven) -> None:
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("export.csv", f"4,{GONE}\n")
        people.put("data/export.zip", file.getvalue())
        assert [unread.why for unread in people.prove(GONE).not_read] == [
            "it is compressed with zip, which is not searched"
        ]

    def test_damaged_files_are_no_proof(self, people: Proven) -> None:
        whole = parquet(rows(GONE), compression="zstd")
        people.put("data/cut.parquet", whole[: len(whole) // 2])
        people.put("metadata/cut.avro", next(people.folder.rglob("*-m0.avro")).read_bytes()[:1500])
        people.put("data/secret.parquet", b"PARE" + whole[4:])
        people.put("metadata/x.stats", b"PFA1" + b"?" * 40)
        proof = people.prove("other@example.org")
        names = {Path(unread.object).name for unread in proof.not_read}
        assert names == {"cut.parquet", "cut.avro", "secret.parquet", "x.stats"}
        assert not proof.clean and proof.places == []
        people.put("data/empty.parquet", b"")
        assert "empty.parquet" not in str(people.prove(GONE).not_read)


class TestManifests:
    def test_bounds_of_removed_entries(self, people: Proven) -> None:
        """A copy-on-write delete leaves the bounds of the removed file in its manifest."""
        people.table.delete("email = 'anna@example.org'")
        first = people.table.metadata.snapshots[0].snapshot_id
        people.table.maintenance.expire_snapshots().by_id(first).commit()
        for path in people.folder.rglob("*"):  # what an expiry would remove
            if path.is_file() and str(first) in path.name:
                path.unlink()
        proof = people.prove("anna@example.org")
        assert "lower bound of column email" in " ".join(place.where for place in proof.places if place.live)

    @pytest.mark.parametrize("survivor", [True, False])
    def test_a_bound_that_was_cut_counts_unless_a_surviving_row_yields_it(self, people: Proven, survivor: bool) -> None:
        erased, other = "longest-name-of-all-1@example.org", "longest-name-of-all-2@example.org"
        upper = erased[:15] + chr(ord(erased[15]) + 1)
        bounds = {"lower_bounds": {2: erased[:16].encode()}, "upper_bounds": {2: upper.encode()}}
        people.add(rows(other if survivor else "m@example.org"), [], **bounds)
        found = wheres(people.prove(erased))
        assert found == ([] if survivor else ["lower bound of column email", "upper bound of column email"])

    def test_a_short_bound_is_exact(self, people: Proven) -> None:
        """One of nine characters was not cut to sixteen: a longer value that begins so does not explain it."""
        people.add(rows("ann@x.org.uk"), [], lower_bounds={2: b"ann@x.org"}, upper_bounds={2: b"ann@x.org"})
        assert wheres(people.prove("ann@x.org")) == ["lower bound of column email", "upper bound of column email"]

    def test_a_short_bound_that_a_value_merely_begins_with(self, people: Proven) -> None:
        people.add(rows("zo", "zz"), [], lower_bounds={2: b"zo"}, upper_bounds={2: b"zz"})
        assert people.prove(GONE).clean

    @pytest.mark.parametrize(
        ("kind", "column", "text", "raw"),
        [
            ("long", 1, "-5", (-5).to_bytes(8, "little", signed=True)),
            ("long", 1, "-5", (-5).to_bytes(4, "little", signed=True)),
            ("decimal(9, 2)", 1, "1.50", b"\x00\x96"),
            ("date", 1, "1971-01-01", (365).to_bytes(4, "little")),
            ("uuid", 1, str(UUID(int=9)), UUID(int=9).bytes),
        ],
    )
    def test_bounds_by_type(self, people: Proven, kind: str, column: int, text: str, raw: bytes) -> None:
        people.add(rows("a@b.org"), [], lower_bounds={column: raw}, upper_bounds={column: raw})
        found = wheres(people.prove_keys(HiddenKey(column, kind, [text])))
        assert found == ["lower bound of column id", "upper bound of column id"]

    def test_other_columns_as_bytes(self, people: Proven) -> None:
        people.add(rows("a@b.org"), [], lower_bounds={3: GONE.encode()}, upper_bounds={3: b"zz"})
        assert wheres(people.prove(GONE)) == ["bytes of an entry"]


class TestPartitions:
    def test_by_the_key_itself(self, lake: SmallLake) -> None:
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.people", SCHEMA)
        with table.update_spec() as update:
            update.add_identity("email")
        people = Proven(lake)
        people.append("anna@example.org", "joanna@example.org", None)
        proof = people.prove("anna@example.org")
        assert {
            "column email, 1 row",
            "name",
            "partition value",
            "path of a file",
            "partition summary, lower bound",
        } <= set(wheres(proof))
        assert "anna%40" not in repr(proof) and "anna@" not in repr(proof)
        assert "email=*" in repr(proof)
        assert people.prove("nna@example.org", "anna@example.or").clean

    @pytest.mark.parametrize("survivor", [True, False])
    @pytest.mark.parametrize("transform", [BucketTransform(4), TruncateTransform(3)])
    def test_by_what_a_transform_made_of_it(self, people: Proven, transform: Any, survivor: bool) -> None:
        with people.table.update_spec() as update:
            update.add_field("email", transform, "part")
        key = wanted_keys(people.table.metadata, [HiddenKey(2, "string", [GONE])])[0]
        (image,) = key.images(str(transform))
        candidates = [f"zoe{n}@example.org" for n in range(100)]
        alike = [text for text in candidates if image in transformed(key, str(transform), [text])]
        other = next(
            text
            for text in (f"m{n}@example.org" for n in range(100))
            if image not in transformed(key, str(transform), [text])
        )
        present = alike[0] if survivor else other
        people.add(rows(present), [image])
        assert not any(image in transformed(key, str(transform), [f"{name}@example.org"]) for name in ("anna", "bert"))
        found = wheres(people.prove(GONE))
        expected = ["partition summary, lower bound", "partition summary, upper bound", "partition value"]
        assert found == ([] if survivor else expected)


class TestDocuments:
    def test_summaries_properties_and_refs(self, people: Proven) -> None:
        table = people.table
        with table.transaction() as transaction:
            transaction.set_properties({"owner-note": f"asked by {GONE}"})
        told = {"told-by": "ola%40example.org", "see": "mailto:eva@example.org"}
        table.append(pa.Table.from_pylist([{"id": 9}], schema=SCHEMA), snapshot_properties=told)
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "for-pia@example.org").commit()
        assert "table property" in " ".join(wheres(people.prove(GONE)))
        assert "snapshot summary" in wheres(people.prove("ola@example.org"))
        assert "snapshot summary" in wheres(people.prove("eva@example.org"))
        assert "name of a branch or tag" in " ".join(wheres(people.prove("pia@example.org")))

    def test_the_name_of_a_property(self, people: Proven) -> None:
        """A tag's note is one: its name has the tag's."""
        with people.table.transaction() as transaction:
            transaction.set_properties({f"lakewarden.note.for-{GONE}": "-"})
        assert wheres(people.prove(GONE)) == ["table property"]

    def test_partitions_in_summaries_of_any_type(self, lake: SmallLake) -> None:
        lake.catalog.create_namespace("crm")
        table = lake.catalog.create_table("crm.people", SCHEMA)
        with table.update_spec() as update:
            update.add_identity("id")
        people = Proven(lake)
        people.append("anna@example.org")
        told = {"partitions.id=7/other=x": "added-data-files=1"}
        people.table.append(rows("b@example.org"), snapshot_properties=told)
        assert wheres(people.prove("7", column="id", kind="long")) == ["snapshot summary"]
        assert people.prove("5", column="id", kind="long").clean

    def test_compressed_metadata(self, people: Proven) -> None:
        content = json.dumps({"format-version": 2, "properties": {"note": 'a "quoted" zoë@example.org'}}).encode()
        people.put("metadata/old.gz.metadata.json", gzip.compress(content))
        proof = people.prove('"quoted" zoë@example.org')
        assert wheres(proof) == ["table property"] and proof.places[0].kind == "metadata"

    @pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
    @pytest.mark.parametrize("packed_footer", [True, False])
    def test_statistics(self, people: Proven, codec: str | None, packed_footer: bool) -> None:
        people.put("metadata/x.stats", puffin(b"sketch \0" + GONE.encode() + b"\0", codec, packed_footer))
        assert wheres(people.prove(GONE)) == ["blob of statistics"]
        assert people.prove("other@example.org").clean

    def test_words_that_the_table_is_made_of_cannot_be_told_apart(self, people: Proven) -> None:
        proof = people.prove("append", "people", GONE)
        assert proof.clean
        assert any("2 values are words of the table's own" in step for step in proof.method)

    def test_short_numbers_are_not_taken_from_counts_and_names(self, people: Proven) -> None:
        """Else a number would be met as the size of a file, and a request could never be closed."""
        told = {"total-files-size": "123456", "by": "op-20261115-160820-8b27b0"}
        people.table.append(rows("7"), snapshot_properties=told)
        proof = people.prove("123456", "160820", "8b27b0", "20261115")
        assert proof.clean and any("4 values look like numbers" in step for step in proof.method)
        people.append("123456")
        assert "column email, 1 row" in wheres(people.prove("123456"))
        people.table.append(rows("7"), snapshot_properties={"for": "41791234567"})
        assert wheres(people.prove("41791234567")) == ["snapshot summary"]

    @pytest.mark.parametrize("number", ["5551234", "791234567", "facade"])
    def test_short_numbers_that_are_a_whole_text(self, people: Proven, number: str) -> None:
        """A phone number in a summary, a property, a tag's name, a list or a path."""
        longer = [f"x{number}", f"{number}1", f"a {number}"]
        table = people.table
        counts = {"write.bloom-filter-max-bytes": number, "max-age-ms": number}
        with table.transaction() as transaction:
            transaction.set_properties({**counts, **dict.fromkeys(longer, "-")})
        told = {"added-rows": number, "flink.max-committed-checkpoint-id": number}
        table.append(rows("7"), snapshot_properties=told)
        people.put("data/notes.json", json.dumps({"of": longer, "count": number, "n": 1}).encode())
        people.put(f"data/{number}-1/part-{number}.txt", b"x")
        assert people.prove(number, GONE).clean

        def only(where: str) -> None:
            proof = people.prove(number, GONE)
            assert where in wheres(proof) and number not in repr(proof)

        people.put("data/notes.json", json.dumps({"of": ["x", {"who": [number]}]}).encode())
        only("document")
        people.put("data/notes.json", json.dumps({number: 1}).encode())
        only("document")
        people.put("data/notes.json", b"[]")
        path = people.put(f"data/{number}.txt", b"x")
        only("name")
        path.unlink()
        people.put(f"data/{number}/x.txt", b"x")
        only("name")
        table = people.table
        table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, number).commit()
        only("name of a branch or tag")
        with people.table.transaction() as transaction:
            transaction.set_properties({"asked-by": number})
        only("table property")
        people.table.append(rows("7"), snapshot_properties={"asked-by": number})
        only("snapshot summary")

    def test_short_values_are_looked_for_only_where_values_stand(self, people: Proven) -> None:
        people.put("data/notes.bin", b" zoe ")
        proof = people.prove("zoe")
        assert proof.clean and any("shorter than 6 bytes" in step for step in proof.method)
        people.append("zoe", "zz")
        assert "column email, 1 row" in wheres(people.prove("zoe"))


class TestSurvivors:
    def test_a_longer_value_that_holds_the_erased_one(self, people: Proven) -> None:
        longer = ["jo.zoe@example.org", "zoe@example.org.uk", "anna+zoe@example.org"]
        table = rows(*longer)
        path = people.add(
            table, [], lower_bounds={2: b"anna+zoe@example.org"[:16]}, upper_bounds={2: b"zoe@example.orh"}
        )
        pq.write_table(table.cast(with_ids(table.schema)), path, compression="none", use_dictionary=False)
        assert people.prove(GONE).clean
        people.put("data/left.bin", b" jo.zoe@example.org , zoe@example.org ")
        assert wheres(people.prove(GONE)) == ["bytes"]

    def test_more_than_can_be_explained_one_by_one(self, people: Proven) -> None:
        people.append("jo.zoe@example.org")
        people.put("data/many.bin", b" jo.zoe@example.org " * 999)
        assert people.prove(GONE).clean
        people.put("data/many.bin", b" jo.zoe@example.org " * 1001)
        assert wheres(people.prove(GONE)) == ["bytes, 1,000 or more times"]

    def test_the_same_text_in_another_column_is_told_with_its_column(self, people: Proven) -> None:
        table = pa.Table.from_pylist([{"id": 1, "email": "a@b.org", "note": f"knows {GONE}"}], schema=SCHEMA)
        people.put("data/x.parquet", parquet(table, compression="none", use_dictionary=False, write_statistics=False))
        assert wheres(people.prove(GONE)) == ["bytes of column note"]


class TestElsewhere:
    def test_files_that_lie_outside_and_behind_links(self, people: Proven, tmp_path: Path) -> None:
        outside = tmp_path / "outside.parquet"
        pq.write_table(rows(GONE), outside)
        people.table.add_files([f"file://{outside}"])
        proof = people.prove(GONE)
        assert {Path(p.object).name for p in proof.places if p.kind == "data"} == {"outside.parquet"}
        assert all(place.live for place in proof.places)

        linked = people.folder / "data"
        linked.rename(tmp_path / "elsewhere")
        linked.symlink_to(tmp_path / "elsewhere")
        assert "column email, 1 row" in wheres(people.prove("anna@example.org"))

    def test_data_in_a_place_of_its_own(self, lake: SmallLake, tmp_path: Path) -> None:
        lake.catalog.create_namespace("crm")
        place = tmp_path / "apart"
        lake.catalog.create_table("crm.people", SCHEMA, properties={"write.data.path": f"file://{place}"})
        people = Proven(lake)
        people.append("anna@example.org")
        pq.write_table(rows(GONE), place / "orphan.parquet", compression="zstd")
        people.aged(place / "orphan.parquet")
        assert "column email, 1 row" in wheres(people.prove(GONE))

    def test_what_is_committed_meanwhile_is_looked_at_too(self, people: Proven) -> None:
        table, loads = people.table, 0

        def reload() -> Any:
            nonlocal loads
            loads += 1
            if loads == 1:
                people.append(GONE)
            return people.table

        storage = people.lake.warden.ground.storage("main")
        key = HiddenKey(2, "string", [GONE])
        proof = prove(table, [key], storage, before=datetime.now(UTC), reload=reload)
        assert "column email, 1 row" in wheres(proof) and proof.snapshots == 2 and loads == 2

    def test_what_was_being_written_is_looked_at_again(self, people: Proven) -> None:
        whole = parquet(rows("other@example.org"), compression="zstd")
        path = people.put("data/x.parquet", whole[:-20], timedelta())

        def reload() -> Any:
            path.write_bytes(whole)
            return people.table

        proof = people.prove(GONE, reload=reload)
        assert proof.clean and proof.by_kind["data"] == 2

    def test_what_is_committed_meanwhile_counts_as_live(self, people: Proven) -> None:
        path = people.put("data/x.parquet", parquet(rows(GONE), compression="zstd"), timedelta())
        pending = [f"file://{path}"]

        def reload() -> Any:
            if pending:
                people.table.add_files([pending.pop()])
            return people.table

        proof = people.prove(GONE, reload=reload)
        assert not proof.young
        assert {place.live for place in proof.places if place.object.endswith("/x.parquet")} == {True}

    def test_a_list_of_manifests_that_is_gone(self, people: Proven) -> None:
        next(people.folder.rglob("snap-*.avro")).unlink()
        proof = people.prove(GONE)
        assert [Path(unread.object).name[:5] for unread in proof.not_read] == ["snap-"]


def test_shares_nothing_with_what_erases() -> None:
    """Only by other code can a proof find what an erasure overlooks."""
    modules = sorted((Path(lakewarden.__file__).parent / "engine" / "proof").glob("*.py"))
    rooms = r"lakewarden\.engine\.(kernel|rows\.(search|pruning|key_)|files\.(live|manifests)|commit|rewrite|history)"
    assert len(modules) > 8 and not any(re.findall(rooms, module.read_text()) for module in modules)


def test_an_interrupt_ends_it_soon(people: Proven) -> None:
    for n in range(40):
        people.put(f"data/{n}.bin", os.urandom(100_000))

    def interrupted(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        people.prove(GONE, progress=interrupted)


def test_very_many_values(people: Proven, soaking: bool) -> None:
    values = [f"someone-{n}@example.org" for n in range(200_000 if soaking else 20_000)]
    proof = people.prove(*values, "anna@example.org")
    assert "column email, 1 row" in wheres(proof)
    assert people.prove(*values).clean


def puffin(blob: bytes, codec: str | None, packed_footer: bool, kind: str = "x") -> bytes:
    """A statistics file with one blob, put together by hand."""

    def packed(content: bytes, by: str) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, by) as out:
            out.write(content)
        return bytes(sink.getvalue())

    stored = packed(blob, codec) if codec else blob
    told: dict[str, Any] = {"type": kind, "fields": [2], "snapshot-id": 1, "sequence-number": 1, "offset": 4}
    told |= {"length": len(stored)} | ({"compression-codec": codec} if codec else {})
    footer = json.dumps({"blobs": [told], "properties": {}}).encode()
    footer = packed(footer, "lz4") if packed_footer else footer
    flags = bytes([int(packed_footer), 0, 0, 0])
    return b"PFA1" + stored + b"PFA1" + footer + len(footer).to_bytes(4, "little") + flags + b"PFA1"


def test_each_small_object_is_opened_once_and_all_are_listed_once(people: Proven) -> None:
    """With many small files, opening and listing again cost as much as looking at them."""
    for number in range(3):
        people.append(f"someone-{number}@example.org")
    opened: Counter[str] = Counter()
    walked: list[str] = []

    class Counted(StoredFiles):
        def open(self, location: str) -> Any:
            opened[location] += 1
            return super().open(location)

        def walk(self, location: str, without: Collection[str] = ()) -> Any:
            walked.append(location)
            return super().walk(location, without)

    key = HiddenKey(people.table.schema().find_field("email").field_id, "string", [GONE])
    proof = prove(people.table, [key], Counted(people.lake.warden.ground.stores["main"]), before=LONG_AGO)
    data = {path: times for path, times in opened.items() if path.endswith(".parquet")}
    assert len(data) >= 3 and set(data.values()) == {1}
    assert len(walked) == 1
    assert proof.objects == len([path for path in people.folder.rglob("*") if path.is_file()])
