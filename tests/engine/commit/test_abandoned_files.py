"""What a killed run of an action left behind is removed by the next one, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

from lakewarden.engine.base.file_naming import is_owned, naming, owned_name
from lakewarden.engine.commit.abandoned_files import staging_folder, sweep
from lakewarden.engine.storage.storage import Storage
from tests.engine.lakes import STAMP, Lake, digest, lake, local

__all__ = ["lake"]

OTHER = replace(STAMP, action="ba9876543210")


def storage(lake: Lake) -> Storage:
    return Storage(lake.warden.ground.stores["main"])


def write(location: str) -> str:
    local(location).parent.mkdir(parents=True, exist_ok=True)
    local(location).write_bytes(b"x")
    return location


class TestSweep:
    def test_files_that_were_never_published(self, lake: Lake) -> None:
        table = lake.create(appends=1)
        folder = local(table.metadata.location)
        before = digest(folder)
        metadata = f"{table.metadata.location}/metadata"
        write(f"{staging_folder(table, STAMP)}/ab12/0.parquet")
        write(f"{metadata}/{STAMP.file_prefix}-token-m0.avro")
        with naming(STAMP):
            write(owned_name(f"{metadata}/00009-9f8b2f0e-1111-4222-8333-944455556666.metadata.json"))
        assert sweep(table, STAMP, storage(lake)) == 3
        assert digest(folder) == before

    def test_what_others_wrote_stays(self, lake: Lake) -> None:
        table = lake.create(appends=1)
        metadata = f"{table.metadata.location}/metadata"
        write(f"{staging_folder(table, OTHER)}/ab12/0.parquet")
        write(f"{metadata}/{OTHER.file_prefix}-token-m0.avro")
        write(f"{metadata}/00009-9f8b2f0e-1111-4222-8333-944455556666.metadata.json")
        with naming(OTHER):
            write(owned_name(f"{metadata}/00010-9f8b2f0e-1111-4222-8333-944455556666.metadata.json"))
        before = digest(local(table.metadata.location))
        assert sweep(table, STAMP, storage(lake)) == 0
        assert digest(local(table.metadata.location)) == before

    def test_what_was_published_stays(self, lake: Lake) -> None:
        from lakewarden.engine.commit.refs import RefChange, SetRef

        table = lake.create(appends=1)
        change = RefChange(
            "main.sales.orders",
            str(table.metadata.table_uuid),
            {"v1": None},
            set=(SetRef("v1", "tag", table.metadata.snapshots[0].snapshot_id),),
        )
        lake.direct.publish(change)
        published = lake.table()
        assert is_owned(published.metadata_location, STAMP)
        before = digest(local(table.metadata.location))
        assert sweep(published, STAMP, storage(lake)) == 0
        lake.append()  # it is superseded now, and only the log tells of it
        assert sweep(lake.table(), STAMP, storage(lake)) == 0
        assert set(before) <= set(digest(local(table.metadata.location)))

    def test_a_table_whose_data_goes_elsewhere(self, lake: Lake) -> None:
        place = lake.folder / "elsewhere"
        table = lake.create(appends=0, **{"write.data.path": f"file://{place}"})
        write(f"{staging_folder(table, STAMP)}/ab12/0.parquet")
        assert sweep(table, STAMP, storage(lake)) == 1
        assert [path for path in place.rglob("*") if path.is_file()] == []


class TestNames:
    def test_a_metadata_file_is_still_named_as_iceberg_names_it(self) -> None:
        given = "file:///t/metadata/00012-9f8b2f0e-1111-4222-8333-944455556666.gz.metadata.json"
        with naming(STAMP):
            owned = owned_name(given)
        assert owned != given and owned.startswith("file:///t/metadata/00012-") and owned.endswith(".gz.metadata.json")
        assert is_owned(owned, STAMP) and not is_owned(owned, OTHER) and not is_owned(given, STAMP)

    def test_two_tries_of_one_action_write_two_files(self) -> None:
        given = "file:///t/metadata/00012-9f8b2f0e-1111-4222-8333-944455556666.metadata.json"
        with naming(STAMP):
            assert owned_name(given) != owned_name(given)

    def test_where_nothing_is_committed_names_stay(self) -> None:
        given = "file:///t/metadata/00012-9f8b2f0e-1111-4222-8333-944455556666.metadata.json"
        assert owned_name(given) == given
