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

_KINDS = (EvidenceKind.PURGED, EvidenceKind.PROVED, EvidenceKind.WATCHED)
_PACKAGES = ("lakewarden", "pyarrow", "pyiceberg")


@dataclass(frozen=True)
class Issued(Shown):
    """A certificate that was written to a file."""

    file: str
    request: str
    says: str
    fingerprint: str


class Certificate(Question[Attested | Issued]):
    """Issue a signed certificate for a completed request: what was erased from where, and how it was proved.

    The request must be closed by clean proofs of all its tables. The certificate holds no values, only salted hashes.
    The printed JSON, a .json and an .html file can all be checked offline with erasure check-certificate.
    """

    id: Annotated[str, Positional()] = Field(description="The request's id.")
    out: Path | None = Field(None, description="Write it to this .json file, or as an HTML page to this .html file.")

    def ask(self, lake: Reader) -> Attested | Issued:
        if self.out is not None and self.out.suffix.lower() not in (".json", ".html"):
            raise BadValue(f"out: {self.out} is neither .json nor .html", "The suffix selects the format.")
        request = lake.state.erasure.get(self.id)
        evidence = lake.state.erasure.evidence(_KINDS, request=request.id)
        closed_by_proof(request, evidence)  # refuse before the expensive lookups
        key = signing_key.load(lake.settings.signing_key)
        issue = Issue(
            at=lake.clock(),
            software={"python": platform.python_version()} | {name: version(name) for name in _PACKAGES},
            public_key=key.public.text,
            fingerprint=key.public.fingerprint,
            other_tables=[f"{other}." for other in uncovered(lake, request.keys)],
        )
        certificate = sign(attest(request, evidence, lake.state.erasure.digests(request.id), issue), key)
        if self.out is None:
            return certificate
        _write(self.out, _content(certificate, key, self.out))
        return Issued(str(self.out), request.id, certificate.says, key.public.fingerprint)


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
        raise BadValue(f"{path} already exists", "Choose another file, or remove it first.") from None
    except OSError as error:
        raise StorageUnavailable(f"{path} cannot be written: {error.strerror}", "Choose another location.") from None
