"""A certificate of erasure as an HTML page, to read and print.

The page is self-contained: it runs no scripts and loads no fonts or images. The signed data is embedded in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from html import escape
from typing import Any

from lakewarden.features.erasure.certificates.content import Attested
from lakewarden.features.erasure.certificates.seal import document_of, embedded
from lakewarden.quantities import show_size

_STYLE = """
:root { --ink: #1c2430; --soft: #5d6878; --line: #d9dee6; --faint: #f5f7fa; --good: #17643a; --goodbg: #edf7f1; }
* { box-sizing: border-box; }
html { font-size: 16px; }
body { color: var(--ink); background: #fff; font: .94rem/1.5 "Helvetica Neue", Arial, "Liberation Sans", sans-serif;
  max-width: 68rem; margin: 0 auto; padding: 2.5rem 2rem 3rem; }
header { border-bottom: 3px solid var(--ink); padding-bottom: 1rem; margin-bottom: 1.5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .35rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .5rem; padding-top: .2rem; break-after: avoid; }
h3 { font-size: .95rem; margin: .9rem 0 .2rem; break-after: avoid; }
p { margin: .4rem 0; max-width: 48rem; }
.soft, .soft td { color: var(--soft); }
.says { background: var(--goodbg); border-left: 5px solid var(--good); padding: .9rem 1.1rem; font-size: 1.08rem; }
.says p { margin: 0; max-width: none; } .warns { background: #fdf3e7; border-color: #a8600d; margin-top: .8rem; }
.wide { overflow-x: auto; }
.facts { display: grid; grid-template-columns: 11rem 1fr; gap: .3rem 1.2rem; margin: .8rem 0; }
.facts dt { color: var(--soft); } .facts dd { margin: 0; overflow-wrap: anywhere; }
.good { color: var(--good); font-weight: 600; } .bad { color: #a12622; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0 1rem; font-size: .86rem; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; break-after: avoid; }
th { text-align: left; color: var(--soft); font-weight: 600; border-bottom: 1.5px solid var(--ink); }
th, td { padding: .32rem .75rem .32rem 0; vertical-align: top; }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th:last-child, td:last-child { padding-right: 0; }
td.name { overflow-wrap: break-word; } td.time, td.id { white-space: nowrap; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; } td.number { white-space: nowrap; }
code, td.code, td.id { font: .8rem/1.45 "DejaVu Sans Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
pre { background: var(--faint); border: 1px solid var(--line); padding: .6rem .8rem; white-space: pre-wrap; }
li { margin: .2rem 0; } ul, ol { margin: .4rem 0; padding-left: 1.3rem; max-width: 48rem; }
footer { margin-top: 2.5rem; padding-top: .8rem; border-top: 1px solid var(--line); font-size: .86rem; }
@page { size: A4; margin: 16mm 15mm; }
@media print {
  html { font-size: 11.5px; } body { padding: 0; max-width: none; } .wide { overflow: visible; }
  tr, dt, dd, li, .says { break-inside: avoid; } thead { display: table-header-group; }
  .says, pre { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
@media (max-width: 40rem) { .facts { grid-template-columns: 1fr; gap: 0; } .facts dd { margin-bottom: .5rem; } }
"""
_TITLES = {
    "sha256": "SHA-256",
    "instead_of": "replaces",
    "field_id": "field id",
    "places": "places found",
    "not_read": "not readable",
}
_ALSO = "each stored spelling has a separate hash"
_IGNORING = {
    "": "",
    "case": f"letter case was ignored; {_ALSO}",
    "trim": f"surrounding spaces were ignored; {_ALSO}",
    "case,trim": f"letter case and surrounding spaces were ignored; {_ALSO}",
}
_CODE = {"sha256", "path", "instead_of", "metadata"}
_IDS = {"uuid", "before", "after", "snapshot", "operation"}
_NAMES = {"table", "column", "ref", "kind", "type", "route"}


def page(certificate: Attested) -> str:
    title = f"Certificate of erasure {escape(certificate.request)}"
    body = "\n".join(_sections(certificate))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{_STYLE}</style>\n</head>\n'
        f"<body>\n{body}\n{embedded(document_of(certificate))}\n</body>\n</html>\n"
    )


def _sections(certificate: Attested) -> Iterator[str]:
    yield (
        f"<header>\n<h1>Certificate of erasure</h1>\n<p class=soft>Request <code>{escape(certificate.request)}</code>, "
        f"certified {_time(certificate.issued_at)}</p>\n</header>"
    )
    gone = any(proof.result == "gone" for proof in certificate.proofs)
    yield f"<section class='says{' warns' if gone else ''}'>\n<p>{escape(certificate.says)}</p>\n</section>"
    if certificate.came_back:
        yield "<section class='says warns'>\n<p>Later, such values came back to these tables.</p>\n</section>"
        yield _table(certificate.came_back, "When that was found")
    yield from _asked(certificate)
    yield from _done(certificate)
    yield from _proved(certificate)
    yield "<h2>What this does not cover</h2>"
    yield _list(certificate.not_covered)
    yield from _hashes(certificate)
    yield from _files(certificate)
    yield from _signature(certificate)


def _asked(certificate: Attested) -> Iterator[str]:
    yield "<h2>What was requested, and when</h2>"
    met = {None: "", True: "<span class=good>met</span>", False: "<span class=bad>not met</span>"}[
        certificate.deadline_met
    ]
    yield _facts(
        ("Requested by", escape(certificate.requester)),
        ("Reason", escape(certificate.reason)),
        ("Subject", escape(certificate.subject)),
        ("Values", f"{certificate.values:,}, shown only as hashes below"),
        ("Spelling", _IGNORING[certificate.ignoring]),
        ("Requested", _time(certificate.created_at)),
        ("Grace until", _time(certificate.grace_until) if certificate.grace_until > certificate.created_at else ""),
        ("Deadline", f"{_time(certificate.deadline)}, {met}" if certificate.deadline else "none was set"),
        ("Erased and proved", _time(certificate.closed_at)),
    )
    yield _table(certificate.keys, "Key columns by which rows were found")


def _done(certificate: Attested) -> Iterator[str]:
    yield "<h2>What was erased</h2>"
    yield _table(
        [asdict(table) for table in certificate.tables], "Values that occurred, and erased rows of this request"
    )
    if all(table.rows_erased == 0 for table in certificate.tables):
        yield "<p>None of the values was found when the tables were purged, so no row was erased.</p>"
    if not certificate.purges:
        return
    yield "<p class=soft>A row counts once for every file that held it, in any version.</p>"
    yield (
        "<p>Files with such rows were rewritten without them, every branch and tag was moved to a version without "
        "them, and the old versions and their files within the tables' locations were deleted from storage.</p>"
    )
    if any(purge.other_requests for purge in certificate.purges):
        yield (
            "<p>Some runs also erased rows of other requests that were due at the same time. The rows and files shown "
            "are those of this request; the expired versions are those of the whole run.</p>"
        )
    yield _table(certificate.purges, "Runs", without=("route", "metadata_before", "metadata_after"))
    yield _table(certificate.refs, "Branches and tags: the versions before and after, and the erased rows")


def _proved(certificate: Attested) -> Iterator[str]:
    yield "<h2>How it was proved</h2>"
    yield (
        "<p>By a separate scan of everything stored: every object in a table's storage is read, whether a version of "
        "the table references it or not.</p>"
    )
    if any(proof.result == "gone" for proof in certificate.proofs):
        yield "<p class=bad>Nothing was read of tables that were gone.</p>"
    for table in dict.fromkeys(each.table for each in certificate.method):
        yield f"<h3>{escape(table)}</h3>"
        yield _list(each.step for each in certificate.method if each.table == table)
    yield _table(certificate.proofs, "Proofs", without=("metadata",))
    yield _table(_by_kind(certificate), "Objects that the last proof of each table read")
    yield _table(certificate.proved_refs, "Branches and tags at the last proof")


def _by_kind(certificate: Attested) -> list[dict[str, Any]]:
    """One row per table, one column per kind."""
    kinds = sorted({read.kind for read in certificate.objects_read})
    rows: dict[str, dict[str, Any]] = {}
    for read in certificate.objects_read:
        rows.setdefault(read.table, {"table": read.table, **dict.fromkeys(kinds, 0)})[read.kind] = read.objects
    return list(rows.values())


def _hashes(certificate: Attested) -> Iterator[str]:
    yield "<h2>The values, as hashes</h2>"
    yield f"<p>{escape(certificate.hashing)}</p>"
    yield _table(certificate.value_hashes)


def _files(certificate: Attested) -> Iterator[str]:
    if certificate.removed_files or certificate.new_files:
        yield "<h2>Files</h2>"
        yield (
            "<p>Files with rows are listed with the hash of their content, metadata files with their size. A star "
            "replaces a part of a path that contains a value.</p>"
        )
        yield _table(
            [asdict(file) for file in certificate.removed_files], f"Deleted: {len(certificate.removed_files):,}"
        )
        yield _table(certificate.new_files, f"Replacements: {len(certificate.new_files):,}")


def _signature(certificate: Attested) -> Iterator[str]:
    yield "<h2>Signature</h2>"
    yield _facts(
        ("Algorithm", "Ed25519, over the embedded data as canonical JSON; the page as a whole is signed too"),
        ("Public key", f"<code>{escape(certificate.public_key)}</code>"),
        ("Fingerprint", f"<code>{escape(certificate.fingerprint)}</code>"),
        ("Signature", f"<code>{escape(certificate.signature)}</code>"),
        ("Issued with", escape(", ".join(f"{name} {version}" for name, version in certificate.software.items()))),
    )
    yield (
        "<p>To check it offline, get the issuer's public key over another channel than this page:</p>\n"
        "<pre><code>lakewarden erasure check-certificate FILE --key PUBLIC-KEY</code></pre>"
    )
    yield (
        "<footer class=soft>A printed copy or an image of this page proves nothing; only the file can be checked."
        "</footer>"
    )


def _facts(*facts: tuple[str, str]) -> str:
    rows = "\n".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in facts if value)
    return f"<dl class=facts>\n{rows}\n</dl>"


def _list(items: Iterable[str]) -> str:
    rows = "\n".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>\n{rows}\n</ul>" if rows else ""


def _table(items: Sequence[Any], caption: str = "", without: Sequence[str] = ()) -> str:
    """A table of mappings or dataclasses; empty columns are left out."""
    rows = [item if isinstance(item, Mapping) else asdict(item) for item in items]
    if not rows:
        return ""
    shown = [name for name in rows[0] if name not in without and any(row[name] not in ("", None) for row in rows)]
    head = "".join(f"<th{_class(name, rows[0][name])}>{_title(name)}</th>" for name in shown)
    body = "\n".join(
        "<tr>" + "".join(f"<td{_class(name, row[name])}>{_cell(name, row[name])}</td>" for name in shown) + "</tr>"
        for row in rows
    )
    above = f"<caption>{escape(caption)}</caption>\n" if caption else ""
    return f"<div class=wide><table>\n{above}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"


def _title(name: str) -> str:
    return _TITLES.get(name) or escape(name.replace("_", " "))


def _class(name: str, value: Any) -> str:
    if isinstance(value, int):
        return " class=number"
    if isinstance(value, datetime):
        return " class=time"
    kinds = {"code": _CODE, "id": _IDS, "name": _NAMES}
    return next((f" class={kind}" for kind, names in kinds.items() if name in names), "")


def _cell(name: str, value: Any) -> str:
    if name == "result":
        return f"<span class={'good' if value == 'clean' else 'bad'}>{escape(value)}</span>"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M} UTC"
    if isinstance(value, int):
        return show_size(value) if "bytes" in name else f"{value:,}"
    return escape(str(value))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
