"""`erasure certificate`: what it says, that it holds no value, and when there is none.

Covers `features/erasure/certificates/from_evidence.py`, `features/erasure/certificates/page.py`,
`features/erasure/requests/request_part.py` and `features/erasure/purging/row_owners.py`.
"""

from __future__ import annotations

import copy
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from lakewarden.doors.cli.main import run
from lakewarden.doors.rest.app import create_app
from lakewarden.errors import BadValue, ConfigProblem, Conflict, NotFound, StorageUnavailable
from lakewarden.features.erasure.certificates.content import Attested
from lakewarden.features.erasure.certificates.seal import document_of
from lakewarden.features.erasure.check_certificate import CheckCertificate
from lakewarden.records.erasure import ErasureState, EvidenceKind
from tests.engine.lakes import open_path, read_only
from tests.features.erasure.certified import PROVED, PURGED, carried_out, close, document, tell
from tests.features.erasure.people import SCHEMA, configured, person, with_people
from tests.small_lake import SmallLake

__all__ = ["open_path"]


def certify(lake: SmallLake, request: str, out: Path | None = None) -> Attested:
    """The certificate as an answer; written to a file as well, where one is named."""
    if out is not None:
        issued = lake.warden.erasure.certificate(request, out=out)
        assert (issued.file, issued.request) == (str(out), request)
    found: Attested = lake.warden.erasure.certificate(request)
    return found


def said_by(capsys: pytest.CaptureFixture[str], lake: SmallLake, *arguments: str) -> str:
    """What the command line answers."""
    capsys.readouterr()
    assert run(["--config", str(lake.folder), *arguments]) == 0
    return capsys.readouterr().out


def digest_key(lake: SmallLake) -> bytes:
    with lake.warden.ground.database.connect() as connection:
        return bytes(connection.execute(text("SELECT value FROM secrets")).scalar_one())


class TestSays:
    def test_what_was_asked_and_done_and_proved(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        request = carried_out(lake, reason="art. 17", requester="privacy", deadline="30d")
        asked, said = lake.warden.erasure.show(request), certify(lake, request)
        assert (said.request, said.state, said.reason, said.requester) == (request, "closed", "art. 17", "privacy")
        assert (said.created_at, said.closed_at, said.deadline) == (asked.created_at, asked.closed_at, asked.deadline)
        assert said.deadline_met is True and said.values == 2
        [key] = said.keys
        uuid = str(lake.catalog.load_table("crm.people").metadata.table_uuid)
        assert (key.table, key.uuid, key.column, key.type) == ("main.crm.people", uuid, "email", "string")
        assert (key.field_id, key.values) == (2, 2)
        assert [(ref.ref, ref.kind, ref.before, ref.after, ref.rows) for ref in said.refs] == [
            ("main", "branch", "8000000000000000001", "12", 3),
            ("quarter-1", "tag", "10", "13", 2),
        ]
        assert said.counts == PURGED["counts"]
        assert [(file.path, file.sha256) for file in said.removed_files] == [
            (file["path"], file["sha256"]) for file in PURGED["files"]
        ]
        assert [(file.path, file.sha256, file.instead_of) for file in said.new_files] == [
            (file["path"], file["sha256"], file["instead_of"]) for file in PURGED["new_files"]
        ]
        [purge], [proof] = said.purges, said.proofs
        assert (purge.rows, purge.bytes_removed, purge.other_requests, purge.route) == (3, 5400, 0, "direct")
        assert (proof.result, proof.places, proof.objects, proof.bytes, proof.snapshots) == ("clean", 0, 9, 123_456, 2)
        assert [(how.table, how.step) for how in said.method] == [("main.crm.people", how) for how in PROVED["method"]]
        assert {read.kind: read.objects for read in said.objects_read} == PROVED["by_kind"]
        assert {ref.ref: ref.snapshot for ref in said.proved_refs} == {"main": "12", "quarter-1": "13"}
        assert {"lakewarden", "python", "pyarrow", "pyiceberg"} == set(said.software)
        assert any("Backups" in told for told in said.not_covered)
        assert said.says.startswith("Of 2 key values, 2 occurred in main.crm.people: 3 rows were erased from every ")

    def test_the_values_only_as_salted_hashes_that_the_installation_can_check(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        first, second = carried_out(lake), carried_out(lake)
        said = certify(lake, first)
        key = digest_key(lake)

        def hashed(request: str, value: str) -> str:
            digest = hmac.digest(key, f"string:{value}".encode(), hashlib.sha256)
            return hashlib.sha256(f"{request}:".encode() + digest).hexdigest()

        expected = {hashed(first, "p1@example.org"), hashed(first, "p2@example.org")}
        assert {each.sha256 for each in said.value_hashes} == expected
        other = {each.sha256 for each in certify(lake, second).value_hashes}
        assert not expected & other  # that two certificates are about one person does not show

    def test_many_values_as_one_hash(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        values = [f"v{number}@example.org" for number in range(10_000)]
        request = carried_out(lake, value=values)
        said = certify(lake, request)
        [many] = said.value_hashes
        digests = lake.warden.ground.state.erasure.digests(request)[0]
        alone = sorted(hashlib.sha256(f"{request}:".encode() + digest).digest() for digest in digests)
        assert (many.values, len(alone), said.values) == (10_000, 10_000, 10_000)
        assert many.sha256 == hashlib.sha256(b"".join(alone)).hexdigest()
        assert "SHA-256 over all" in said.hashing

    def test_several_tables_of_one_subject(self, any_lake: SmallLake) -> None:
        lake = with_people(with_people(with_people(any_lake), "sales.orders"), "web.events")
        configured(lake, subjects={"customer": {"crm.people": "email", "sales.orders": "user.email"}})
        said = certify(lake, carried_out(lake, subject="customer"))
        assert said.subject == "customer" and said.values == 2
        assert [(key.table, key.column) for key in said.keys] == [
            ("main.crm.people", "email"),
            ("main.sales.orders", "user.email"),
        ]
        for rows in (said.purges, said.refs, said.removed_files, said.proofs, said.objects_read, said.value_hashes):
            assert {row.table for row in rows} == {"main.crm.people", "main.sales.orders"}
        assert said.counts["rows_dropped_by_tombstones"] == 6
        assert said.not_covered[-1].startswith("main.web.events also has email, user.email, but is not covered")

    def test_that_nothing_had_to_be_erased(self, lake: SmallLake) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["nobody@example.org"]).id
        tell(lake, request, EvidenceKind.PROVED, PROVED)
        close(lake, request)
        said = certify(lake, request)
        assert (said.purges, said.refs, said.removed_files) == ([], [], [])
        assert said.says.startswith(
            "Of 1 key value, none was found in main.crm.people when it was purged: no row was erased."
        )

    def test_a_deadline_that_was_not_met_and_none_at_all(self, lake: SmallLake) -> None:
        with_people(lake)
        late = lake.warden.erasure.request("crm.people", key="email", value=["a"], deadline="1d").id
        tell(lake, late, EvidenceKind.PROVED, PROVED)
        close(lake, late, after=timedelta(days=2))
        assert certify(lake, late).deadline_met is False
        assert certify(lake, carried_out(lake)).deadline_met is None

    def test_runs_that_erased_for_others_too(self, lake: SmallLake) -> None:
        with_people(lake)
        other = lake.warden.erasure.request("crm.people", key="email", value=["b"]).id
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        tell(lake, request, EvidenceKind.PURGED, PURGED, others=[other])
        tell(lake, request, EvidenceKind.PROVED, PROVED)
        close(lake, request)
        said = certify(lake, request)
        assert said.purges[0].other_requests == 1 and other not in str(said)

    def test_each_attempt_and_what_earlier_proofs_found(self, lake: SmallLake) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        found = {**PROVED, "clean": False, "places": [{"object": "x"}], "objects": 1, "method": ["an old way"]}
        tell(lake, request, EvidenceKind.PURGED, PURGED, operation="op-1")
        tell(lake, request, EvidenceKind.PROVED, found, operation="op-1")
        tell(lake, request, EvidenceKind.PURGED, PURGED, operation="op-2")
        tell(lake, request, EvidenceKind.PROVED, PROVED, operation="op-2")
        close(lake, request)
        said = certify(lake, request)
        assert [purge.operation for purge in said.purges] == ["op-1", "op-2"]
        assert [(proof.result, proof.places) for proof in said.proofs] == [("traces", 1), ("clean", 0)]
        assert "an old way" not in str(said.method) and said.counts["rows_dropped_by_tombstones"] == 6

    def test_a_table_that_is_gone_was_not_looked_through(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(with_people(lake), "sales.orders")
        configured(lake, subjects={"customer": {"crm.people": "email", "sales.orders": "email"}})
        request = lake.warden.erasure.request(subject="customer", value=["a"]).id
        gone = str(lake.catalog.load_table("sales.orders").metadata.table_uuid)
        tell(lake, request, EvidenceKind.PROVED, PROVED)
        tell(lake, request, EvidenceKind.PROVED, {"clean": True, "gone": True}, uuid=gone)
        close(lake, request)
        said = certify(lake, request, tmp_path / "c.html")
        assert "1 table (main.sales.orders) is no longer in the catalog" in said.says and "not searched" in said.says
        assert "none was found in main.crm.people" in said.says
        assert [proof.result for proof in said.proofs] == ["clean", "gone"]
        assert "Files that may be left of main.sales.orders." in said.not_covered

    def test_that_nothing_at_all_was_looked_through(self, lake: SmallLake) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        tell(lake, request, EvidenceKind.PROVED, {"clean": True, "gone": True})
        close(lake, request)
        said = certify(lake, request).says
        assert said.startswith("1 table (main.crm.people) is no longer in the catalog") and "none of the" not in said

    def test_that_somebody_came_back(self, lake: SmallLake) -> None:
        with_people(lake)
        request = carried_out(lake)
        assert certify(lake, request).came_back == []
        tell(lake, request, EvidenceKind.WATCHED, {"rows": 1}, operation="op-9")
        assert [(back.table, back.operation) for back in certify(lake, request).came_back] == [
            ("main.crm.people", "op-9")
        ]

    def test_evidence_that_lacks_what_need_not_be_there(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        tell(lake, request, EvidenceKind.PURGED, {"refs": [{"name": "main", "after": None}], "files": [{}]})
        tell(lake, request, EvidenceKind.PROVED, {"clean": True})
        close(lake, request)
        certify(lake, request, tmp_path / "c.html")
        said = certify(lake, request, tmp_path / "c.json")
        assert (said.refs[0].ref, said.refs[0].after, said.refs[0].rows) == ("main", "", 0)
        assert CheckCertificate(file=tmp_path / "c.html").make().request == request

    def test_the_same_but_for_the_time(self, any_lake: SmallLake) -> None:
        lake = with_people(any_lake)
        request = carried_out(lake)
        first, second = certify(lake, request), certify(lake, request)
        assert first.issued_at < second.issued_at
        assert replace(second, issued_at=first.issued_at, signature=first.signature) == first

    def test_a_catalog_that_does_not_answer_is_said(self, lake: SmallLake, capsys: pytest.CaptureFixture[str]) -> None:
        with_people(lake)
        request = carried_out(lake)
        lake.warden.close()
        (lake.folder / "lake/catalog.db").unlink()
        printed = json.loads(said_by(capsys, lake, "erasure", "certificate", request, "--json"))
        assert "other tables could not be checked for such a column" in printed["not_covered"][-1]


class TestRefused:
    def test_what_is_open(self, any_lake: SmallLake) -> None:
        lake = with_people(with_people(any_lake), "sales.orders")
        configured(lake, subjects={"customer": {"crm.people": "email", "sales.orders": "email"}})
        request = lake.warden.erasure.request(subject="customer", value=["a"]).id
        with pytest.raises(Conflict, match="no clean proof of main.crm.people, main.sales.orders") as caught:
            certify(lake, request)
        assert request in caught.value.hint
        uuid = str(lake.catalog.load_table("crm.people").metadata.table_uuid)
        tell(lake, request, EvidenceKind.PROVED, PROVED, uuid=uuid)
        with pytest.raises(Conflict, match="no clean proof of main.sales.orders. "):
            certify(lake, request)
        tell(lake, request, EvidenceKind.PROVED, PROVED)
        with pytest.raises(Conflict, match="still open"):
            certify(lake, request)

    def test_a_last_proof_that_found_something(self, lake: SmallLake) -> None:
        """Whoever closed it: an earlier clean proof does not make up for it."""
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        tell(lake, request, EvidenceKind.PROVED, PROVED, operation="op-1")
        tell(lake, request, EvidenceKind.PROVED, {**PROVED, "clean": False}, operation="op-2")
        close(lake, request)
        with pytest.raises(Conflict, match="no clean proof of main.crm.people"):
            certify(lake, request)

    def test_closed_without_any_evidence(self, lake: SmallLake) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        close(lake, request)
        with pytest.raises(Conflict, match="no clean proof of main.crm.people"):
            certify(lake, request)

    def test_withdrawn(self, lake: SmallLake) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"]).id
        lake.warden.ground.state.erasure.move(request, ErasureState.WITHDRAWN, datetime.now(UTC))
        with pytest.raises(Conflict, match="was withdrawn"):
            certify(lake, request)

    def test_unknown(self, lake: SmallLake) -> None:
        with pytest.raises(NotFound, match="no erasure request er-1"):
            certify(lake, "er-1")

    def test_evidence_of_a_newer_version(self, lake: SmallLake) -> None:
        with_people(lake)
        request = carried_out(lake)
        tell(lake, request, EvidenceKind.PROVED, {**PROVED, "version": 2})
        with pytest.raises(Conflict, match="a newer Lakewarden wrote the evidence"):
            certify(lake, request)

    def test_no_key_to_sign_with(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = carried_out(lake)
        (lake.folder / "signing-key.pem").unlink()
        with pytest.raises(ConfigProblem, match="there is no signing key") as caught:
            certify(lake, request, tmp_path / "c.json")
        assert "lakewarden lake key --make" in caught.value.hint and not (tmp_path / "c.json").exists()


class TestFiles:
    def test_json(self, lake: SmallLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with_people(lake)
        request = carried_out(lake)
        file = tmp_path / "certificate.JSON"
        printed = json.loads(said_by(capsys, lake, "erasure", "certificate", request, "--out", str(file), "--json"))
        written = document(file)
        assert printed == {name: written[name] for name in ("request", "says", "fingerprint")} | {"file": str(file)}
        assert CheckCertificate(file=file, key=written["public_key"]).make().result == "genuine"

    def test_what_is_printed_is_a_certificate_too(
        self, lake: SmallLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with_people(lake)
        request = carried_out(lake)
        (tmp_path / "c").write_text(said_by(capsys, lake, "erasure", "certificate", request, "--json"))
        assert CheckCertificate(file=tmp_path / "c", key=lake.warden.lake.key().public_key).make().request == request
        assert request in said_by(capsys, lake, "erasure", "certificate", request)

    def test_a_page_that_needs_nothing_from_anywhere(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = carried_out(lake, reason="<script>alert(1)</script> & </script> <!-- Löschung 删除 \U0001f9ca")
        said = certify(lake, request, tmp_path / "c.html")
        page = (tmp_path / "c.html").read_text()
        seen = _Seen()
        seen.feed(page)
        assert seen.scripts == [{"type": "application/json", "id": "certificate"}]
        assert not {"src", "href", "onload"} & seen.attributes and "url(" not in page and "@import" not in page
        for told in (request, said.reason, said.says, said.public_key, said.fingerprint):
            assert told in seen.text
        files = [(file.path, file.sha256) for file in said.removed_files]
        files += [(file.path, file.sha256) for file in said.new_files]
        assert all(path in seen.text and digest in seen.text for path, digest in files)
        for told in (*said.not_covered, said.method[0].step, said.value_hashes[0].sha256, "8000000000000000001"):
            assert told in seen.text
        shown, answered = json.loads(seen.data), document_of(said)
        assert shown["signature"] in seen.text
        of_the_moment = ("issued_at", "signature")
        assert [each for each in answered if shown[each] != answered[each]] == list(of_the_moment)

    def test_a_page_of_little(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = lake.warden.erasure.request("crm.people", key="email", value=["a"], deadline="1d").id
        tell(lake, request, EvidenceKind.PROVED, PROVED)
        close(lake, request, after=timedelta(days=2))
        tell(lake, request, EvidenceKind.WATCHED, {})
        certify(lake, request, tmp_path / "c.html")
        seen = _Seen()
        seen.feed((tmp_path / "c.html").read_text())
        for told in ("None of the values was found", "not met", "such values came back"):
            assert told in seen.text

    def test_nothing_is_written_over(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = carried_out(lake)
        (tmp_path / "c.json").write_text("mine")
        with pytest.raises(BadValue, match="already exists"):
            certify(lake, request, tmp_path / "c.json")
        assert (tmp_path / "c.json").read_text() == "mine"

    @pytest.mark.parametrize("name", ["c", "c.pdf", "c.json.txt", ".html"])
    def test_a_name_that_does_not_say_what_it_is(self, lake: SmallLake, tmp_path: Path, name: str) -> None:
        with pytest.raises(BadValue, match="neither .json nor .html"):
            certify(lake, "er-1", tmp_path / name)

    def test_a_place_that_cannot_be_written(self, open_path: Path, tmp_path: Path) -> None:
        with SmallLake(open_path / "lake") as lake:
            with_people(lake)
            request = carried_out(lake)
            for path, why in (
                ("nowhere/c.json", "No such file or directory"),
                (f"{'x' * 300}.json", "File name too long"),
            ):
                with pytest.raises(StorageUnavailable, match=f"cannot be written: {why}"):
                    certify(lake, request, tmp_path / path)
            closed = open_path / "closed"
            closed.mkdir()
            from lakewarden.features.erasure.certificate import _write

            with read_only(closed), pytest.raises(StorageUnavailable, match="cannot be written: Permission denied"):
                _write(closed / "c.json", b"")

    def test_over_rest_nothing_is_written_on_the_server(self, lake: SmallLake, tmp_path: Path) -> None:
        with_people(lake)
        request = carried_out(lake)
        client = TestClient(create_app(lake.warden))
        there = client.get("/api/v1/erasure/certificate", params={"id": request, "out": str(tmp_path / "c.json")})
        assert there.status_code == 400 and not (tmp_path / "c.json").exists()
        answer = client.get("/api/v1/erasure/certificate", params={"id": request})
        (tmp_path / "answer").write_bytes(answer.content)
        assert CheckCertificate(file=tmp_path / "answer").make().request == request
        refused = client.post("/api/v1/erasure/check-certificate", json={"file": str(tmp_path / "answer")})
        assert refused.status_code == 403


def test_no_value_anywhere(any_lake: SmallLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not in the data, not on the page, not in what the command line says."""
    lake = with_people(any_lake)
    values = ["p1@example.org", "Ünïcode-删除@example.org", 'quo"te\\<b>']
    request = carried_out(lake, value=values)
    page, data = tmp_path / "c.html", tmp_path / "c.json"
    printed = [
        said_by(capsys, lake, "erasure", "certificate", request, "--out", str(page)),
        said_by(capsys, lake, "erasure", "certificate", request, "--out", str(data), "--json"),
        said_by(capsys, lake, "erasure", "check-certificate", str(page)),
        page.read_text(),
        data.read_text(),
    ]
    for value in values:
        spelled = {value, json.dumps(value)[1:-1], value.encode().hex(), value.encode("utf-16-le").hex()}
        spelled |= {hashlib.new(name, value.encode()).hexdigest() for name in ("sha256", "sha1", "md5")}
        assert not [each for each in spelled for told in printed if each in told]


def test_of_a_real_erasure(any_lake: SmallLake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for, purged, proved, certified and checked; the paths of this table hold the values."""
    lake = any_lake
    lake.catalog.create_namespace("crm")
    table = lake.catalog.create_table("crm.people", SCHEMA)
    with table.update_spec() as spec:
        spec.add_identity("email")
    rows = [person(n) for n in range(6)]
    table.append(pa.Table.from_pylist(rows, schema=SCHEMA))
    lake.warden.version.tag("crm.people", "v1").apply()
    values = [row["email"] for row in rows if row["id"] in (2, 4)]
    old = [path for path in lake.folder.rglob("*.parquet") if any(quote(value) in str(path) for value in values)]
    hashes = {hashlib.sha256(path.read_bytes()).hexdigest() for path in old}
    before = lake.head("crm.people")
    request = lake.warden.erasure.request("crm.people", key="email", value=values, deadline="1d").id
    assert lake.warden.erasure.purge(request=[request]).apply().result["requests_closed"] == 1

    said_by(capsys, lake, "erasure", "certificate", request, "--out", str(tmp_path / "c.html"))
    told = said_by(capsys, lake, "erasure", "certificate", request, "--json")
    said = json.loads(told)
    assert CheckCertificate(file=tmp_path / "c.html", key=lake.warden.lake.key().public_key).make().request == request
    assert len(old) == 2 and {file["sha256"] for file in said["removed_files"]} >= hashes
    assert not [path for path in old if path.exists()]
    now = lake.refs("crm.people")
    assert {(ref["ref"], ref["before"], ref["after"], ref["rows"]) for ref in said["refs"]} == {
        ("main", str(before), str(now["main"]), 2),
        ("v1", str(before), str(now["v1"]), 2),
    }
    assert said["counts"]["rows_dropped_by_tombstones"] == 2 and said["deadline_met"] is True
    stored = [path for path in (lake.folder / "lake/warehouse/crm/people").rglob("*") if path.is_file()]
    [proof] = said["proofs"]
    searched = len(stored) + 1  # and the mark of the request, which went with it
    assert (proof["result"], proof["objects"]) == ("clean", searched)
    assert sum(kind["objects"] for kind in said["objects_read"]) == searched
    page = (tmp_path / "c.html").read_text()
    assert "email=*" in page and not [each for v in values for each in (v, quote(v)) if each in told or each in page]


def test_a_value_that_never_occurred_has_no_rows_nor_those_of_others(lake: SmallLake, tmp_path: Path) -> None:
    with_people(lake)
    lake.warden.version.tag("crm.people", "v1").apply()
    table = lake.catalog.load_table("crm.people")
    table.delete("id = 1")  # which leaves the row in an earlier version, and in the tag
    values = ["p1@example.org", "p2@example.org", "p9@example.org"]
    one = lake.warden.erasure.request("crm.people", key="email", value=values).id
    two = lake.warden.erasure.request("crm.people", key="email", value=["p2@example.org "]).id
    three = lake.warden.erasure.request("crm.people", key="id", value=["2", "4"]).id
    planned = lake.warden.erasure.purge("crm.people")
    assert any("deleted with the expired versions: their metadata" in note for note in planned.plan.warnings)
    result = planned.apply().result
    assert planned.plan.actions[0].estimate.rows == result["rows_dropped_by_tombstones"] == 4
    assert planned.plan.actions[0].files.bytes == result["bytes_with_rows"] < result["bytes_removed"]
    said = {request: certify(lake, request) for request in (one, two, three)}
    assert said[one].says.startswith("Of 3 key values, 2 occurred in main.crm.people: 3 rows were erased from")
    assert said[two].says.startswith(
        "Of 1 key value, none was found in main.crm.people when it was purged: no row was erased."
    )
    assert said[three].says.startswith("Of 2 key values, 2 occurred in main.crm.people: 3 rows were erased from")
    assert (said[two].refs, said[two].removed_files, said[two].new_files) == ([], [], [])
    assert (said[two].purges[0].rows, said[two].counts["rows_dropped_by_tombstones"]) == (0, 0)
    assert {(ref.ref, ref.rows) for ref in said[one].refs} == {("main", 1), ("v1", 2)}
    assert {(ref.ref, ref.rows) for ref in said[three].refs} == {("main", 2), ("v1", 2)}
    data = {request: {file.path for file in said[request].removed_files if file.sha256} for request in (one, three)}
    assert len(data[one]) == 2 and len(data[three]) == 3
    certify(lake, two, tmp_path / "c.html")
    assert "None of the values was found" in (tmp_path / "c.html").read_text()


def test_evidence_is_not_changed_by_telling_it(lake: SmallLake) -> None:
    with_people(lake)
    before = copy.deepcopy((PURGED, PROVED))
    certify(lake, carried_out(lake))
    assert before == (PURGED, PROVED)


class _Seen(HTMLParser):
    """A page as a browser takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.text, self.data = "", ""
        self.scripts: list[dict[str, Any]] = []
        self.attributes: set[str] = set()
        self._within = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._within = tag
        self.attributes |= {name for name, _ in attrs}
        if tag == "script":
            self.scripts.append(dict(attrs))

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within == "script":
            self.data += data
        elif self._within != "style":
            self.text += data
