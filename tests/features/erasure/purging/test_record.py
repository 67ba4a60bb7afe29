"""What a purge records about itself: true counts, every file with its rows and its successor, and no value."""

from __future__ import annotations

import json

from lakewarden.features.erasure.purging.record import NOTHING
from lakewarden.records.erasure import EvidenceKind
from tests.reachability import on_disk
from tests.small_lake import SmallLake

PEOPLE = "crm.people"


def test_counts_and_files_without_any_value(lake: SmallLake) -> None:
    """Of two files one has a row to erase; a tag and main reference it."""
    lake.create(PEOPLE, appends=1)
    (file,) = [task.file for task in lake.catalog.load_table(PEOPLE).scan().plan_files()]
    lake.warden.version.tag(PEOPLE, "first").apply()
    lake.append(PEOPLE)
    request = lake.warden.erasure.request(PEOPLE, key="city", value=["city 1"]).id

    result = lake.warden.erasure.purge(PEOPLE).apply().result

    (found,) = lake.warden.ground.state.erasure.evidence([EvidenceKind.PURGED], request=request)
    counts = found.document["counts"]
    assert counts.keys() == NOTHING.keys() and {key: result[key] for key in counts} == counts
    expected = {"tombstones_applied": 1, "rows_dropped_by_tombstones": 1, "files_rewritten": 1, "refs_repointed": 2}
    assert counts.items() >= {**expected, "snapshots_expired": 2, "bytes_with_rows": file.file_size_in_bytes}.items()
    by_path = {each["path"]: each for each in found.document["files"]}
    assert by_path[file.file_path]["rows"] == {request: 1} and not on_disk(file.file_path).exists()
    assert sum(each["bytes"] for each in by_path.values()) == counts["bytes_removed"]
    (new,) = found.document["new_files"]
    assert new["instead_of"] == file.file_path and on_disk(new["path"]).exists()
    assert {ref["name"]: ref["after"] for ref in found.document["refs"]} == lake.refs(PEOPLE)
    assert "city 1" not in json.dumps(found.document)
