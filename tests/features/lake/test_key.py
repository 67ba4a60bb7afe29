"""`lake key`: the public key by which certificates are checked, and the file that the secret one is in."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from lakewarden.errors import BadValue, ConfigProblem, StorageUnavailable
from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.erasure.certificates.signing_key import VerifyingKey, read_public
from lakewarden.warden import Warden
from tests.engine.lakes import nobody, open_path, read_only
from tests.features.erasure.people import configured
from tests.small_lake import SmallLake

__all__ = ["open_path"]


def key_file(lake: SmallLake) -> Path:
    return lake.folder / "signing-key.pem"


def secret(lake: SmallLake) -> ed25519.Ed25519PrivateKey:
    found = load_pem_private_key(key_file(lake).read_bytes(), None)
    assert isinstance(found, ed25519.Ed25519PrivateKey)
    return found


class TestShown:
    def test_the_public_half_of_the_file(self, lake: SmallLake) -> None:
        shown = lake.warden.lake.key()
        assert VerifyingKey(secret(lake).public_key().public_bytes_raw()).text == shown.public_key
        assert load_pem_public_key(shown.pem.encode()) == secret(lake).public_key()
        assert len(shown.fingerprint.split()) == 8

    def test_on_the_command_line_and_never_the_secret_one(self, lake: SmallLake) -> None:
        shown = lake.warden.lake.key()
        printed = lake.run("lake", "key").stdout
        assert shown.public_key in printed and shown.fingerprint in printed
        assert json.loads(lake.run("lake", "key", "--json").stdout) == {
            "public_key": shown.public_key,
            "fingerprint": shown.fingerprint,
            "pem": shown.pem,
        }
        assert key_file(lake).read_text().splitlines()[1] not in printed

    def test_neither_the_lake_nor_the_control_database_is_needed(self, lake: SmallLake) -> None:
        (lake.folder / "lake/catalog.db").unlink()
        configured(lake, state="postgresql+psycopg://nobody@127.0.0.1:1/none")
        assert lake.warden.lake.key().public_key

    def test_a_file_that_the_configuration_names(
        self, lake: SmallLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = lake.warden.lake.key()
        key_file(lake).rename(tmp_path / "elsewhere.pem")
        monkeypatch.setenv("KEYS", str(tmp_path))
        configured(lake, signing_key="${KEYS}/elsewhere.pem")
        assert lake.warden.lake.key() == before
        configured(lake, signing_key="../elsewhere.pem")  # from the configuration's folder
        assert lake.warden.lake.key() == before


class TestMade:
    def test_one_for_an_installation_without(self, lake: SmallLake) -> None:
        before = lake.warden.lake.key()
        key_file(lake).unlink()
        made = lake.warden.lake.key(make=True)
        assert made.public_key != before.public_key
        assert stat.S_IMODE(key_file(lake).stat().st_mode) == 0o600
        assert lake.warden.lake.key() == made

    def test_one_that_is_there_stays(self, lake: SmallLake) -> None:
        before = lake.warden.lake.key()
        assert lake.warden.lake.key(make=True) == before

    def test_even_if_it_is_no_use(self, lake: SmallLake) -> None:
        key_file(lake).write_text("mine")
        with pytest.raises(ConfigProblem):
            lake.warden.lake.key(make=True)
        assert key_file(lake).read_text() == "mine"

    def test_in_a_folder_that_cannot_be_written(self, open_path: Path) -> None:
        with read_only(open_path), pytest.raises(StorageUnavailable, match="cannot be written: Permission denied"):
            signing_key.make(open_path / "key.pem")


def _pem(key: Any, password: bytes = b"") -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    made: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return made


class TestRefused:
    def test_a_key_that_is_not_there(self, lake: SmallLake) -> None:
        key_file(lake).unlink()
        with pytest.raises(ConfigProblem, match="no signing key at .*signing-key.pem") as caught:
            lake.warden.lake.key()
        assert "lakewarden lake key --make" in caught.value.hint
        assert not key_file(lake).exists()
        assert lake.run("lake", "key", check=2).stderr.startswith("ConfigProblem: ")

    @pytest.mark.parametrize("mode", [0o604, 0o602, 0o644, 0o666])
    def test_a_key_that_is_open_to_everybody(self, lake: SmallLake, mode: int) -> None:
        key_file(lake).chmod(mode)
        with pytest.raises(ConfigProblem, match="all users of this machine can access") as caught:
            lake.warden.lake.key()
        assert caught.value.hint == f"chmod 600 {key_file(lake)}"

    @pytest.mark.parametrize("mode", [0o400, 0o440, 0o640])
    def test_a_key_for_a_group_will_do(self, lake: SmallLake, mode: int) -> None:
        key_file(lake).chmod(mode)
        assert lake.warden.lake.key().public_key

    def test_a_key_that_cannot_be_read(self, open_path: Path) -> None:
        signing_key.make(open_path / "key.pem")
        with nobody(), pytest.raises(ConfigProblem, match="cannot be read: Permission denied"):
            signing_key.load(open_path / "key.pem")

    def test_a_folder_in_its_place(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigProblem, match="cannot be read: Is a directory"):
            signing_key.load(tmp_path)

    @pytest.mark.parametrize(
        ("damaged", "told"),
        [
            (lambda pem: b"", "contains no readable key"),
            (lambda pem: b"\xff\x00", "contains no readable key"),
            (lambda pem: pem[:60], "contains no readable key"),
            (lambda pem: pem.replace(b"MC4", b"MC5"), "contains no readable key"),
            (lambda pem: _pem(ed25519.Ed25519PrivateKey.generate(), b"secret"), "contains no readable key"),
            (lambda pem: _pem(ec.generate_private_key(ec.SECP256R1())), "contains a key of another type"),
        ],
        ids=["empty", "bytes", "half", "garbled", "with a password", "another type"],
    )
    def test_a_key_that_is_no_use(self, lake: SmallLake, damaged: Callable[[bytes], bytes], told: str) -> None:
        key_file(lake).write_bytes(damaged(key_file(lake).read_bytes()))
        with pytest.raises(ConfigProblem, match=told) as caught:
            lake.warden.lake.key()
        assert caught.value.hint


class TestGiven:
    """The public key as whoever checks a certificate gives it."""

    def test_in_any_form_in_which_it_is_printed(self, lake: SmallLake, tmp_path: Path) -> None:
        shown = lake.warden.lake.key()
        files = {
            "text": shown.public_key + "\n",
            "human": lake.run("lake", "key").stdout,
            "json": lake.run("lake", "key", "--json").stdout,
            "pem": shown.pem,
        }
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        given = [shown.public_key, f" {shown.public_key}\n", *(str(tmp_path / name) for name in files)]
        assert {read_public(each).text for each in given} == {shown.public_key}

    def test_never_the_secret_one(self, lake: SmallLake) -> None:
        with pytest.raises(BadValue, match="contains a secret key"):
            read_public(str(key_file(lake)))

    @pytest.mark.parametrize("given", ["", "x", "/nowhere", "A" * 44, "\x00", "é" * 300, "A" * 42 + "=="])
    def test_what_is_no_key(self, given: str) -> None:
        with pytest.raises(BadValue, match="neither a public key nor a file with one"):
            read_public(given)

    def test_files_with_no_key_or_two(self, tmp_path: Path) -> None:
        other = ec.generate_private_key(ec.SECP256R1()).public_key()
        pem = other.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        two = " ".join(VerifyingKey(bytes([n]) * 32).text for n in (1, 2))
        for content in (b"", b"text", two.encode(), pem, b"-----BEGIN PUBLIC KEY-----\nx"):
            (tmp_path / "file").write_bytes(content)
            with pytest.raises(BadValue, match="contains no public key"):
                read_public(str(tmp_path / "file"))


def test_the_key_is_told_over_rest_too(lake: SmallLake) -> None:
    from fastapi.testclient import TestClient

    from lakewarden.doors.rest.app import create_app

    with Warden.open(lake.folder) as warden:
        answer = TestClient(create_app(warden)).post("/api/v1/lake/key", json={})
    assert answer.json()["public_key"] == lake.warden.lake.key().public_key
