"""`erasure check-certificate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from lakewarden.display import Shown
from lakewarden.errors import BadValue
from lakewarden.features.erasure.certificates.content import FORMAT, VERSION, Attested
from lakewarden.features.erasure.certificates.seal import check, read
from lakewarden.features.erasure.certificates.signing_key import read_public
from lakewarden.lifecycle.request import Positional, Setup

_LARGEST = 1 << 30
_UNKNOWN_SIGNER = (
    "No key was given, so this only shows that nothing was altered since signing, not who signed it: anyone can create "
    "a key. Get the issuer's public key (lakewarden lake key) over another channel, and pass it as --key."
)


@dataclass(frozen=True)
class Checked(Shown):
    """The result of a successful check."""

    result: str
    request: str
    says: str
    closed_at: datetime
    issued_at: datetime
    deadline_met: bool | None
    signed_by: str
    signer_known: bool
    notes: list[str]


class CheckCertificate(Setup[Checked]):
    """Check offline that a certificate of erasure was not altered, and who signed it. Needs no lake or configuration.

    Exit code 3 if it was altered or signed with another key. An HTML page is checked as a whole: the text and the
    embedded data.
    """

    file: Annotated[Path, Positional()] = Field(description="The certificate: a .json or .html file.")
    key: str | None = Field(None, description="The issuer's public key, or a file that contains it.")

    def make(self) -> Checked:
        given = read_public(self.key) if self.key is not None else None
        sealed = read(_content(self.file), str(self.file))
        signer = check(sealed, given, str(self.file))
        certificate = _understood(sealed.document, self.file)
        return Checked(
            result="genuine" if given else "not altered",
            request=_printable(certificate.request),
            says=_printable(certificate.says),
            closed_at=certificate.closed_at,
            issued_at=certificate.issued_at,
            deadline_met=certificate.deadline_met,
            signed_by=signer.fingerprint,
            signer_known=given is not None,
            notes=[] if given else [_UNKNOWN_SIGNER],
        )


def _printable(text: str) -> str:
    """The text without control characters: without a key, its author is unknown."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "not a valid file name"
        raise BadValue(f"{path} cannot be read: {why}", "Name a file that erasure certificate wrote.") from None


def _understood(document: Mapping[str, Any], path: Path) -> Attested:
    """The signed document as a certificate; refused if it is something else."""
    if (document.get("format"), document.get("version")) == (FORMAT, VERSION):
        try:
            return TypeAdapter(Attested).validate_python(document)
        except ValidationError:
            pass
    raise BadValue(
        f"{path} is signed, but this version of Lakewarden cannot read it as a certificate of erasure",
        "Check it with a newer version.",
    )
