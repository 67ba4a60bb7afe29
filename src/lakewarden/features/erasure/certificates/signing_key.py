"""The Ed25519 key with which an installation signs certificates, and the public key with which others check them.

The secret key is a PKCS #8 PEM file that only its owner can read. It is created once and never overwritten.
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
_TEXT = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{43}=(?![A-Za-z0-9+/=])")  # 32 bytes in base64 as a separate word
_LARGEST = 100_000  # larger files are no key files


@dataclass(frozen=True)
class VerifyingKey:
    """A public key: 32 bytes, shown as one line of base64."""

    raw: bytes

    @property
    def text(self) -> str:
        return b64encode(self.raw).decode()

    @property
    def fingerprint(self) -> str:
        """Half of the key's SHA-256 in short groups, for comparison on paper or over the telephone."""
        digest = hashlib.sha256(self.raw).hexdigest()
        return " ".join(digest[start : start + 4] for start in range(0, 32, 4))

    @property
    def pem(self) -> str:
        """The key in the format of other tools."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return self._key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode().strip()

    def signed(self, data: bytes, signature: bytes) -> bool:
        """Whether a signature of this data was made with the secret half of this key."""
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
    """The secret key of an installation."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public(self) -> VerifyingKey:
        return VerifyingKey(self._key.public_key().public_bytes_raw())

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)


def make(path: Path) -> bool:
    """Create a key unless the file already exists; returns whether it was created."""
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
        raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", "Choose another location.") from None
    return True


def load(path: Path) -> SigningKey:
    """The key in a file; an error if other users than its owner and group can read it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        mode, pem = path.stat().st_mode, path.read_bytes()
    except FileNotFoundError:
        raise ConfigProblem(
            f"there is no signing key at {path}", "Create one with lakewarden lake key --make, or copy yours there."
        ) from None
    except OSError as error:
        raise ConfigProblem(f"the key {path} cannot be read: {error.strerror}", "Check its permissions.") from None
    if mode & _OTHERS:
        raise ConfigProblem(f"all users of this machine can access the key {path}", f"chmod 600 {path}")
    hint = "It must be an Ed25519 key in PEM format without a password. Restore it from a backup."
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):  # a TypeError is a key with a password
        raise ConfigProblem(f"{path} contains no readable key", hint) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigProblem(f"{path} contains a key of another type", hint)
    return SigningKey(key)


def read_public(given: str) -> VerifyingKey:
    """A public key, given as text or as a file: as `lake key` prints it, or in PEM."""
    text = given.strip()
    if (key := _of_text(text)) is not None:
        return key
    try:
        with Path(given).open("rb") as file:
            text = file.read(_LARGEST).decode()
    except (OSError, ValueError):
        raise BadValue("key: neither a public key nor a file with one", "lakewarden lake key prints it.") from None
    if "PRIVATE KEY" in text:
        raise BadValue(f"key: {given} contains a secret key", "Use the public key: lakewarden lake key prints it.")
    found = _of_pem(text) if "-----BEGIN" in text and not _TEXT.search(text) else _of_text(text)
    if found is None:
        raise BadValue(f"key: {given} contains no public key", "lakewarden lake key prints it.")
    return found


def _of_text(text: str) -> VerifyingKey | None:
    """The key in a text, if it contains exactly one."""
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
