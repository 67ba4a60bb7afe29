"""The Ed25519 key that an installation signs certificates with, and the public one by which others check them.

The secret key is a PKCS #8 PEM file that only its owner can read, made once and never overwritten. What is signed
with it, and what a signature is taken to say, is not decided here.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lakewarden.errors import BadValue, ConfigProblem, StorageUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_OTHERS = stat.S_IRWXO
_TEXT = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])")  # 32 bytes in base64, on their own
_LARGEST = 100_000  # no file with a key in it is larger


@dataclass(frozen=True)
class VerifyingKey:
    """A public key: 32 bytes, told as one line of base64."""

    raw: bytes

    @property
    def text(self) -> str:
        return b64encode(self.raw).decode()

    @property
    def fingerprint(self) -> str:
        """Half of the key's SHA-256 in short words, to be compared by people, on paper or over the telephone."""
        digest = hashlib.sha256(self.raw).hexdigest()
        return " ".join(digest[start : start + 4] for start in range(0, 32, 4))

    @property
    def pem(self) -> str:
        """The key as other tools take it."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip()

    def signed(self, data: bytes, signature: bytes) -> bool:
        """Whether a signature of these very bytes was made with the secret half of this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key().verify(signature, data)
        except InvalidSignature:
            return False
        return True

    def _key(self) -> Ed25519PublicKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        return Ed25519PublicKey.from_public_bytes(self.raw)


class SigningKey:
    """The secret key of an installation. It is never shown."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> VerifyingKey:
        return VerifyingKey(self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def make(path: Path) -> bool:
    """Make a key in a file that is not there yet; says whether it did. A file that is there is left alone."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    try:
        with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(pem)
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", "Choose another place.") from None
    return True


def load(path: Path) -> SigningKey:
    """The key in a file, if nobody but its owner and group can read it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        mode, pem = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        raise ConfigProblem(
            f"there is no key to sign with at {path}", "Make one: lakewarden lake key --make — or bring yours there."
        ) from None
    except OSError as error:
        raise ConfigProblem(f"the key {path} cannot be read: {error.strerror}", "Look at its permissions.") from None
    if mode & _OTHERS:
        raise ConfigProblem(f"the key {path} is open to everybody on this machine", f"chmod 600 {path}")
    hint = "An Ed25519 key in PEM, without a password, is what lake init makes. Bring it back from a backup."
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a TypeError is a key with a password
        raise ConfigProblem(f"{path} holds no key that can be read", hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigProblem(f"{path} holds a key of another kind", hint)
    return SigningKey(key)


def read_public(given: str) -> VerifyingKey:
    """The public key that is given: its text, or a file that holds it as `lake key` prints it, or in PEM."""
    text = given.strip()
    if (key := _of_text(text)) is not None:
        return key
    try:
        with Path(given).open("rb") as file:
            text = file.read(_LARGEST).decode()
    except (OSError, ValueError):
        raise BadValue("key: neither a public key nor a file with one", "lakewarden lake key prints it.") from None
    if "PRIVATE KEY" in text:
        raise BadValue(f"key: {given} holds the secret key", "Give the public one: lakewarden lake key prints it.")
    found = _of_pem(text) if "-----BEGIN" in text and not _TEXT.search(text) else _of_text(text)
    if found is None:
        raise BadValue(f"key: {given} holds no public key", "lakewarden lake key prints it.")
    return found


def _of_text(text: str) -> VerifyingKey | None:
    """The one key within a text, if there is one."""
    found = {match.group() for match in _TEXT.finditer(text)}
    return VerifyingKey(b64decode(found.pop())) if len(found) == 1 else None


def _of_pem(text: str) -> VerifyingKey | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return None
    return VerifyingKey(key.public_bytes_raw()) if isinstance(key, Ed25519PublicKey) else None
