"""Signs certificates, and checks signatures offline, without an installation.

The signature covers the canonical JSON of everything but the signature itself: sorted keys, no spaces, UTF-8. A page is
also signed as a whole, because people read the page and not the data in it.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakewarden.errors import BadValue, NotGenuine
from lakewarden.features.erasure.certificates.content import Attested
from lakewarden.features.erasure.certificates.signing_key import SigningKey, VerifyingKey

DATA_BEGINS, DATA_ENDS = '<script type="application/json" id="certificate">', "</script>"
_PAGE_SIGNATURE = re.compile(rb"<!-- signature of all above: ([A-Za-z0-9+/]{86}==) -->\s*\Z")
_AGAIN = "Ask the issuer for another copy."


@dataclass(frozen=True)
class Sealed:
    """A certificate that was read but not checked yet."""

    document: Mapping[str, Any]
    page: bytes | None = None
    """The signed part of a page, if it is one."""
    page_signature: bytes = b""


def canonical(document: Mapping[str, Any]) -> bytes:
    """The bytes that are signed."""
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def document_of(certificate: Attested) -> dict[str, Any]:
    """A certificate as JSON values."""
    from pydantic import TypeAdapter

    from lakewarden.features.erasure.certificates.content import Attested

    document: dict[str, Any] = TypeAdapter(Attested).dump_python(certificate, mode="json")
    return document


def sign(certificate: Attested, key: SigningKey) -> Attested:
    signature = key.sign(canonical(document_of(certificate)))
    return replace(certificate, signature=b64encode(signature).decode())


def sign_page(page: str, key: SigningKey) -> bytes:
    """A page with its signature in a comment at its end."""
    above = page.encode()
    return above + b"<!-- signature of all above: " + b64encode(key.sign(above)) + b" -->\n"


def embedded(document: Mapping[str, Any]) -> str:
    """The data for embedding in a page."""
    data = json.dumps(document, indent=1, ensure_ascii=False).replace("<", "\\u003c")
    return f"{DATA_BEGINS}\n{data}\n{DATA_ENDS}"


def read(content: bytes, called: str) -> Sealed:
    """A certificate from a file's content; an error if it is neither JSON nor a page."""
    if content.lstrip()[:1] != b"<":
        return Sealed(_document(content, called))
    inner = content.partition(DATA_BEGINS.encode())[2].partition(DATA_ENDS.encode())[0]
    found = _PAGE_SIGNATURE.search(content)
    shown = content[: found.start()] if found else content
    return Sealed(_document(inner, called), shown, b64decode(found[1]) if found else b"")


def check(sealed: Sealed, given: VerifyingKey | None, called: str) -> VerifyingKey:
    """The key that signed a certificate; an error if it was altered, or signed with another key than the given one."""
    signature = _bytes(sealed.document, "signature", called)
    named = VerifyingKey(_bytes(sealed.document, "public_key", called))
    if not _holds(named, sealed.document, signature):
        raise NotGenuine(f"{called} or its signature was altered after signing", _AGAIN)
    if given is not None and given != named:
        raise NotGenuine(
            f"{called} was signed with the key {named.fingerprint}, not with the given key {given.fingerprint}",
            "Either another party issued it, or the issuer's key has changed. Ask the issuer.",
        )
    if sealed.page is not None and not named.signed(sealed.page, sealed.page_signature):
        raise NotGenuine(f"the page {called} was altered after signing", _AGAIN)
    return named


def _holds(key: VerifyingKey, document: Mapping[str, Any], signature: bytes) -> bool:
    try:
        return key.signed(canonical(document), signature)
    except (UnicodeEncodeError, ValueError):  # a lone surrogate, or bytes that are not a key
        return False


def _document(content: bytes, called: str) -> Mapping[str, Any]:
    try:
        document = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not {"signature", "public_key"} <= set(document):
        raise BadValue(f"{called} is not a certificate", "Name a .json or .html file that erasure certificate wrote.")
    return document


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse duplicate keys: readers disagree on which one counts."""
    if len(pairs) != len(dict(pairs)):
        raise ValueError
    return dict(pairs)


def _bytes(document: Mapping[str, Any], name: str, called: str) -> bytes:
    try:
        found = b64decode(document[name], validate=True)
    except (TypeError, ValueError):
        found = b""
    if b64encode(found).decode() != document[name]:  # unused bits of base64 must not be set
        raise NotGenuine(f"the {name} of {called} was altered after signing", _AGAIN)
    return found
