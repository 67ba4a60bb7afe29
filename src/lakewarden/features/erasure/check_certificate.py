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
_ONLY_WHOLE = (
    "No key was given, so this says only that nothing was altered since it was signed, not who signed it: anybody can "
    "make a key. Ask whom you think it is from for theirs (lakewarden lake key), by another way, and give it as --key."
)


@dataclass(frozen=True)
class Checked(Shown):
    """What a genuine certificate says, in short."""

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
    """Check that a certificate of erasure is as it was signed, and by whom. Offline: neither lake nor configuration.

    Exit code 3 if it was altered or signed with another key. A page is checked as a whole: what it shows, and the data
    in it.
    """

    file: Annotated[Path, Positional()] = Field(description="The certificate: a .json or .html file.")
    key: str | None = Field(None, description="The public key of whom it should be from, or a file with it.")

    def make(self) -> Checked:
        given = read_public(self.key) if self.key is not None else None
        sealed = read(_content(self.file), str(self.file))
        signer = check(sealed, given, str(self.file))
        said = _understood(sealed.document, self.file)
        return Checked(
            result="genuine" if given else "not altered",
            request=_printable(said.request),
            says=_printable(said.says),
            closed_at=said.closed_at,
            issued_at=said.issued_at,
            deadline_met=said.deadline_met,
            signed_by=signer.fingerprint,
            signer_known=given is not None,
            notes=[] if given else [_ONLY_WHOLE],
        )


def _printable(text: str) -> str:
    """A text that does nothing to a terminal: where no key is given, anybody may have written it."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no such name can be"
        raise BadValue(f"{path} cannot be read: {why}", "Give the file that erasure certificate wrote.") from None


def _understood(document: Mapping[str, Any], path: Path) -> Attested:
    """What was signed, as a certificate; anything can be signed."""
    if (document.get("format"), document.get("version")) == (FORMAT, VERSION):
        try:
            return TypeAdapter(Attested).validate_python(document)
        except ValidationError:
            pass
    raise BadValue(
        f"{path} is signed, but is no certificate of erasure that this Lakewarden can read",
        "Check it with a newer one.",
    )
