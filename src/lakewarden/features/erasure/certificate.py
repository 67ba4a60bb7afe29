"""`erasure certificate`."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lakewarden.display import Shown
from lakewarden.errors import BadValue, StorageUnavailable
from lakewarden.features.erasure.certificates import signing_key
from lakewarden.features.erasure.certificates.content import Attested
from lakewarden.features.erasure.certificates.from_evidence import Issue, attest, closed_by_proof
from lakewarden.features.erasure.certificates.seal import document_of, sign, sign_page
from lakewarden.features.erasure.certificates.signing_key import SigningKey
from lakewarden.features.erasure.requests.request_keys import uncovered
from lakewarden.lifecycle.ground import Reader
from lakewarden.lifecycle.request import Positional, Question
from lakewarden.records.erasure import EvidenceKind

_TOLD = (EvidenceKind.PURGED, EvidenceKind.PROVED, EvidenceKind.WATCHED)
_PACKAGES = ("lakewarden", "pyarrow", "pyiceberg")


@dataclass(frozen=True)
class Issued(Shown):
    """A certificate that was written to a file."""

    file: str
    request: str
    says: str
    fingerprint: str


class Certificate(Question[Attested | Issued]):
    """Certify that a request was carried out: what was erased from where, and how it was proved. Signed.

    Only for a request that clean proofs of all its tables have closed. It holds no value, only salted hashes. The
    answer, a .json and an .html file can all be checked by erasure check-certificate, offline.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")
    out: Path | None = Field(None, description="Write it to this .json file, or as a page to this .html file.")

    def ask(self, lake: Reader) -> Attested | Issued:
        if self.out is not None:
            _refuse_name(self.out)
        request = lake.state.erasure.get(self.id)
        told = lake.state.erasure.evidence(_TOLD, request=request.id)
        closed_by_proof(request, told)  # before anything is looked up for nothing
        key = signing_key.load(lake.settings.signing_key)
        issue = Issue(
            at=lake.clock(),
            software={"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
            public_key=key.public.text,
            fingerprint=key.public.fingerprint,
            other_tables=[f"{other}." for other in uncovered(lake, request.keys)],
        )
        certificate = sign(attest(request, told, lake.state.erasure.digests(request.id), issue), key)
        if self.out is None:
            return certificate
        _write(self.out, _content(certificate, key, self.out))
        return Issued(str(self.out), request.id, certificate.says, key.public.fingerprint)


def _refuse_name(path: Path) -> None:
    if path.suffix.lower() not in (".json", ".html"):
        raise BadValue(f"out: {path} is neither .json nor .html", "Its name says what is written.")


def _content(certificate: Attested, key: SigningKey, path: Path) -> bytes:
    import json

    from lakewarden.features.erasure.certificates.page import page

    if path.suffix.lower() == ".html":
        return sign_page(page(certificate), key)
    return json.dumps(document_of(certificate), indent=2, ensure_ascii=False).encode() + b"\n"


def _write(path: Path, content: bytes) -> None:
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise BadValue(f"{path} exists already", "Choose another file, or remove it first.") from None
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", "Choose another place.") from None
