"""How certificates are signed, and how it is seen offline that one is as it was signed.

The signature is over canonical JSON of everything but the signature itself: keys sorted, no spaces, UTF-8. A page is
signed once more as a whole, since people read the page and not the data in it. Nothing here needs an installation.
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
_AGAIN = "Ask whoever issued it for another copy."


@dataclass(frozen=True)
class Sealed:
    """A certificate as it was read, before anything in it is believed."""

    document: Mapping[str, Any]
    page: bytes | None = None
    """What a page shows, where it is a page."""
    page_signature: bytes = b""


def canonical(document: Mapping[str, Any]) -> bytes:
    """The very bytes that are signed."""
    unsigned = {name: value for name, value in document.items() if name != "signature"}
    return json.dumps(unsigned, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def document_of(certificate: Attested) -> dict[str, Any]:
    """A certificate as JSON has it."""
    from pydantic import TypeAdapter

    from lakewarden.features.erasure.certificates.content import Attested

    document: dict[str, Any] = TypeAdapter(Attested).dump_python(certificate, mode="json")
    return document


def sign(certificate: Attested, key: SigningKey) -> Attested:
    signature = key.sign(canonical(document_of(certificate)))
    return replace(certificate, signature=b64encode(signature).decode())


def sign_page(page: str, key: SigningKey) -> bytes:
    """A page with its signature at its end, where browsers do not show it."""
    above = page.encode()
    return above + b"<!-- signature of all above: " + b64encode(key.sign(above)) + b" -->\n"


def embedded(document: Mapping[str, Any]) -> str:
    """Data within a page, so that the page is a certificate as much as the data is."""
    data = json.dumps(document, indent=1, ensure_ascii=False).replace("<", "\\u003c")
    return f"{DATA_BEGINS}\n{data}\n{DATA_ENDS}"


def read(content: bytes, called: str) -> Sealed:
    """A certificate from a file's content, JSON or page; refused where it is neither."""
    if content.lstrip()[:1] != b"<":
        return Sealed(_document(content, called))
    inner = content.partition(DATA_BEGINS.encode())[2].partition(DATA_ENDS.encode())[0]
    found = _PAGE_SIGNATURE.search(content)
    shown = content[: found.start()] if found else content
    return Sealed(_document(inner, called), shown, b64decode(found[1]) if found else b"")


def check(sealed: Sealed, given: VerifyingKey | None, called: str) -> VerifyingKey:
    """Who signed a certificate; refused unless it is as it was signed, and by the given key where one is given."""
    signature = _bytes(sealed.document, "signature", called)
    named = VerifyingKey(_bytes(sealed.document, "public_key", called))
    if not _holds(named, sealed.document, signature):
        raise NotGenuine(f"{called} is not as it was signed: it was altered, or its signature was", _AGAIN)
    if given is not None and given != named:
        raise NotGenuine(
            f"{called} was signed with the key {named.fingerprint}, not with the given one, {given.fingerprint}",
            "Either it is not from whom you think, or their key is another one now. Ask them.",
        )
    if sealed.page is not None and not named.signed(sealed.page, sealed.page_signature):
        raise NotGenuine(f"the page {called} was altered: it may show what was never signed", _AGAIN)
    return named


def _holds(key: VerifyingKey, document: Mapping[str, Any], signature: bytes) -> bool:
    try:
        return key.signed(canonical(document), signature)
    except (UnicodeEncodeError, ValueError):  # half a character, or bytes that are no key: nobody signed that
        return False


def _document(content: bytes, called: str) -> Mapping[str, Any]:
    try:
        document = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict) or not {"signature", "public_key"} <= set(document):
        raise BadValue(f"{called} is not a certificate", "It is a .json or .html file that erasure certificate wrote.")
    return document


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Of a key that is there twice readers take one or the other: that is no way to say anything."""
    if len(pairs) != len(dict(pairs)):
        raise ValueError
    return dict(pairs)


def _bytes(document: Mapping[str, Any], name: str, called: str) -> bytes:
    try:
        found = b64decode(document[name], validate=True)
    except (TypeError, ValueError):
        found = b""
    if b64encode(found).decode() != document[name]:  # bits that base64 has no use for are not to be set either
        raise NotGenuine(f"{called} is not as it was signed: its {name} was altered", _AGAIN)
    return found
