"""`erasure check-certificate`: whatever is altered is found, offline, by whoever has the public key."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from lakewarden.doors.cli.main import run
from lakewarden.errors import BadValue, NotGenuine
from lakewarden.features.erasure.certificates.content import Attested
from lakewarden.features.erasure.certificates.seal import canonical
from lakewarden.features.erasure.check_certificate import CheckCertificate, Checked
from tests.features.erasure.certified import another_key, carried_out, document
from tests.features.erasure.people import with_people
from tests.small_lake import SmallLake


class Issued:
    """A certificate in both forms, and the key that it should be from."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.json, self.page = folder / "c.json", folder / "c.html"
        with SmallLake(folder / "lake") as lake:
            with_people(lake)
            reason = "Löschung 删除 \U0001f9ca </script>"
            self.request = carried_out(lake, reason=reason, requester="a & b", deadline="9d")
            for path in (self.json, self.page):
                lake.warden.erasure.certificate(self.request, out=path)
            self.key = lake.warden.lake.key().public_key
        self.document = document(self.json)

    def altered(self, to: Any) -> Path:
        path = self.folder / "altered.json"
        path.write_text(to if isinstance(to, str) else json.dumps(to))
        return path


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Issued:
    return Issued(tmp_path_factory.mktemp("issued"))


def check(path: Path, key: str | None = None) -> Checked:
    return CheckCertificate(file=path, key=key).make()


class TestGenuine:
    def test_both_forms(self, issued: Issued) -> None:
        for path in (issued.json, issued.page):
            checked = check(path, issued.key)
            assert (checked.result, checked.signer_known, checked.notes) == ("genuine", True, [])
            assert checked.request == issued.request and checked.deadline_met is True
            assert checked.says == issued.document["says"] and checked.signed_by == issued.document["fingerprint"]

    def test_without_a_key_only_that_nothing_was_altered(self, issued: Issued) -> None:
        for path in (issued.json, issued.page):
            checked = check(path)
            assert (checked.result, checked.signer_known) == ("not altered", False)
            assert "not who signed it" in checked.notes[0]

    def test_with_a_key_from_a_file(self, issued: Issued, tmp_path: Path) -> None:
        (tmp_path / "key.txt").write_text(f"{issued.key}\n")
        assert check(issued.json, str(tmp_path / "key.txt")).result == "genuine"

    def test_written_in_another_way(self, issued: Issued) -> None:
        """What counts is what it says: spaces, the order of keys and how letters are spelled do not."""
        turned = dict(reversed(issued.document.items()))
        for text in (
            json.dumps(turned),
            json.dumps(turned, indent=7, ensure_ascii=True),
            f"\ufeff\r\n {json.dumps(turned, ensure_ascii=False)}\r\n",
        ):
            path = issued.folder / "another-way.json"
            path.write_bytes(text.encode())
            assert check(path, issued.key).result == "genuine"

    def test_where_there_is_no_installation_and_no_network(self, issued: Issued, tmp_path: Path) -> None:
        """Nothing but the file and the key: no configuration, no home, no lake, and no module that could reach one."""
        code = (
            "import sys, socket\n"
            "def refuse(*_): raise AssertionError('it went out')\n"
            "socket.socket.connect = refuse\n"
            "from lakewarden.doors.cli.main import run\n"
            f"code = run(['erasure', 'check-certificate', {str(issued.page)!r}, '--key', {issued.key!r}])\n"
            "assert 'sqlalchemy' not in sys.modules and 'pyspark' not in sys.modules\n"
            "sys.exit(code)"
        )
        environment = {"HOME": str(tmp_path), "LAKEWARDEN_CONFIG": "/nowhere", "PATH": ""}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "") and "genuine" in done.stdout
        assert list(tmp_path.iterdir()) == []

    def test_by_other_means_too(self, issued: Issued) -> None:
        """The signature is a plain one, over JSON that anybody can make."""
        unsigned = {name: value for name, value in issued.document.items() if name != "signature"}
        data = json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        key = Ed25519PublicKey.from_public_bytes(b64decode(issued.key))
        key.verify(b64decode(issued.document["signature"]), data)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where every single fact of a document is."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from _places(item, (*at, key))
    if not isinstance(value, dict | list):
        yield at


def _changed(value: Any, at: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not at:
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(item, at[1:], change) if key == at[0] else item for key, item in value.items()}
    return [_changed(item, at[1:], change) if n == at[0] else item for n, item in enumerate(value)]


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if value is None:
        return "2026-01-01T00:00:00Z"
    return value + 1 if isinstance(value, int) else value[:-1] + ("x" if value[-1:] != "x" else "y")


class TestAltered:
    def test_any_fact(self, issued: Issued) -> None:
        places = list(_places(issued.document))
        assert {place[0] for place in places} | {"came_back"} == {field.name for field in fields(Attested)}
        for place in places:
            path = issued.altered(_changed(issued.document, place, _other))
            for key in (None, issued.key):
                with pytest.raises(NotGenuine) as caught:
                    check(path, key)
                assert caught.value.hint, place

    def test_anything_taken_away_or_added(self, issued: Issued) -> None:
        for name in set(issued.document) - {"signature", "public_key"}:
            left = {key: value for key, value in issued.document.items() if key != name}
            with pytest.raises(NotGenuine, match="was altered after signing"):
                check(issued.altered(left), issued.key)
        for added in (
            issued.document | {"more": 1},
            issued.document | {"refs": issued.document["refs"][:1]},
            issued.document | {"version": 1.0},
            issued.document | {"version": "1"},
            issued.document | {"deadline_met": 1},
            issued.document | {"reason": "\ud800"},
        ):
            with pytest.raises(NotGenuine, match="was altered after signing"):
                check(issued.altered(added), issued.key)

    def test_every_byte_of_a_page(self, issued: Issued) -> None:
        page, path = issued.page.read_bytes(), issued.folder / "altered.html"
        for place in [*range(15, len(page) - 1, 97), len(page) - 20]:
            path.write_bytes(page[:place] + bytes([page[place] ^ 1]) + page[place + 1 :])
            with pytest.raises((NotGenuine, BadValue)):
                check(path, issued.key)

    def test_what_a_page_shows_though_its_data_is_as_it_was(self, issued: Issued) -> None:
        page, path = issued.page.read_text(), issued.folder / "altered.html"
        shown = re.sub("<p>Of 2 key values", "<p>Of 3 key values", page)
        trailer = page[page.index("<!-- signature") :]
        for altered in (
            shown,
            page.removesuffix(trailer),
            page + "<p>more</p>",
            page.replace("</body>", "<p>more</p></body>"),
            page.replace("\n", "\r\n"),
            shown.removesuffix(trailer),
            shown + trailer,
        ):
            assert altered != page
            path.write_bytes(altered.encode())
            with pytest.raises(NotGenuine, match="the page .* was altered"):
                check(path, issued.key)

    def test_two_pages_in_one(self, issued: Issued) -> None:
        page, path = issued.page.read_bytes(), issued.folder / "altered.html"
        path.write_bytes(page.replace(b"Of 2 key values", b"Of 3 key values") + page)
        with pytest.raises(NotGenuine):
            check(path, issued.key)

    def test_a_key_that_is_there_twice(self, issued: Issued) -> None:
        text = json.dumps(issued.document)
        with pytest.raises(BadValue, match="is not a certificate"):
            check(issued.altered('{"request": "er-other", ' + text[1:]), issued.key)

    def test_a_signature_spelled_in_another_way(self, issued: Issued) -> None:
        signature = issued.document["signature"]
        alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        same = signature[:-3] + alphabet[alphabet.index(signature[-3]) + 1] + "=="
        assert b64decode(same) == b64decode(signature)
        for other in (same, f"{signature}\n", signature.rstrip("="), "", None, 1, ["x"]):
            with pytest.raises(NotGenuine, match="signature .*was altered after signing"):
                check(issued.altered(issued.document | {"signature": other}), issued.key)


class TestAnotherKey:
    def test_of_somebody_else(self, issued: Issued, tmp_path: Path) -> None:
        other = another_key(tmp_path).public
        for path in (issued.json, issued.page):
            with pytest.raises(NotGenuine, match="was signed with the key .*, not with the given key") as caught:
                check(path, other.text)
            assert other.fingerprint in caught.value.message and "Ask the issuer" in caught.value.hint

    def test_signed_anew_by_a_forger(self, issued: Issued, tmp_path: Path) -> None:
        """Their own key in it makes it whole again, so only the right key tells."""
        forger = another_key(tmp_path)
        forged = issued.document | {
            "reason": "forged",
            "public_key": forger.public.text,
            "fingerprint": issued.document["fingerprint"],
        }
        forged["signature"] = b64encode(forger.sign(canonical(forged))).decode()
        path = issued.altered(forged)
        checked = check(path)
        assert checked.result == "not altered" and not checked.signer_known
        assert checked.signed_by == forger.public.fingerprint  # of the key itself, not what the data says of it
        with pytest.raises(NotGenuine, match="was signed with the key"):
            check(path, issued.key)
        with pytest.raises(NotGenuine, match="was altered after signing"):
            check(issued.altered(forged | {"public_key": issued.key}), issued.key)

    def test_what_it_says_does_nothing_to_a_terminal(self, issued: Issued, tmp_path: Path) -> None:
        forger = another_key(tmp_path)
        forged = issued.document | {"says": "\x1b[2Jgenuine\r\u202e", "public_key": forger.public.text}
        forged["signature"] = b64encode(forger.sign(canonical(forged))).decode()
        assert check(issued.altered(forged)).says == "?[2Jgenuine??"

    @pytest.mark.parametrize("key", ["", "AAAA", b64encode(bytes(32)).decode(), b64encode(bytes(33)).decode(), 7, None])
    def test_no_key_at_all(self, issued: Issued, key: Any) -> None:
        with pytest.raises(NotGenuine):
            check(issued.altered(issued.document | {"public_key": key}), issued.key)

    def test_signed_but_no_certificate(self, issued: Issued, tmp_path: Path) -> None:
        signer = another_key(tmp_path)
        for facts in (
            {},
            {"format": "x"},
            issued.document | {"version": 2},
            issued.document | {"closed_at": "never"},
            {"format": issued.document["format"], "version": 1},
        ):
            signed = facts | {"public_key": signer.public.text}
            signed["signature"] = b64encode(signer.sign(canonical(signed))).decode()
            with pytest.raises(BadValue, match="cannot read it as a certificate of erasure"):
                check(issued.altered(signed), signer.public.text)


class TestNoCertificate:
    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"text",
            b"{}",
            b"[]",
            b"null",
            b'{"signature": "x"}',
            b"\xff\xfe\x00",
            b"<html></html>",
            b"<",
            b"[" * 100_000,
            b'{"signature": ' + b"9" * 5000 + b"}",
        ],
    )
    def test_whatever_it_is(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(BadValue, match="is not a certificate"):
            check(tmp_path / "file")

    def test_no_file(self, tmp_path: Path) -> None:
        for path, why in (
            (tmp_path / "nowhere", "No such file"),
            (tmp_path, "Is a directory"),
            (Path("\0"), "not a valid file name"),
        ):
            with pytest.raises(BadValue, match=f"cannot be read: {why}"):
                check(path)


def test_exit_codes(issued: Issued, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def code(path: Path, *more: str) -> int:
        return run(["erasure", "check-certificate", str(path), *more])

    altered = issued.altered(issued.document | {"reason": "another"})
    other = another_key(tmp_path).public.text
    assert [code(path, "--key", issued.key) for path in (issued.json, issued.page, altered)] == [0, 0, 3]
    assert code(issued.json) == 0 and code(issued.json, "--key", other) == 3
    assert "NotGenuine: " in capsys.readouterr().err
    assert code(tmp_path / "nowhere") == 2 and code(issued.json, "--key", "no key") == 2
    assert code(issued.folder / "lake/lakewarden.yaml") == 2
    capsys.readouterr()
    assert code(altered, "--json") == 3
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not-genuine"
    assert code(issued.page, "--json", "--key", issued.key) == 0
    assert json.loads(capsys.readouterr().out)["result"] == "genuine"
