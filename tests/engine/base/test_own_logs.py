"""Values are overwritten in logs in place, and in nothing else."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lakewarden.engine.base.own_logs import OwnLogs
from lakewarden.erased_values import ErasedValues
from lakewarden.errors import TracesLeft

VALUES = ErasedValues.of([("string", ["ann\u00e4@x.org", "7"])], {}, [])


def test_values_are_overwritten_while_others_append(tmp_path: Path) -> None:
    log, rotated, other = (tmp_path / name for name in ("lakewarden.log", "spark.log.1", "state.db"))
    content = b"7 of ann\xc3\xa4@x.org \xff at /email=ann%C3%A4%40x.org/\nhann\xc3\xa4@x.org stays\n"
    for file in (log, rotated, other):
        file.write_bytes(content)
    with log.open("ab", buffering=0) as appending:
        assert OwnLogs(tmp_path).forget(VALUES) == 4
        appending.write(b"more\n")
    redacted = b"7 of *********** \xff at /email=*****************/\nhann\xc3\xa4@x.org stays\n"
    assert log.read_bytes() == redacted + b"more\n" and rotated.read_bytes() == redacted
    assert other.read_bytes() == content
    assert OwnLogs(tmp_path).forget(VALUES) == 0


def test_values_after_a_literal_escape_are_overwritten_in_place(tmp_path: Path) -> None:
    log = tmp_path / "lakewarden.log"
    log.write_bytes('{"error": "failed:\\nann\u00e4@x.org\\tis gone"}\n'.encode())
    assert OwnLogs(tmp_path).forget(VALUES) == 1
    assert log.read_bytes() == b'{"error": "failed:\\n***********\\tis gone"}\n'


def test_no_folder_is_no_log(tmp_path: Path) -> None:
    assert OwnLogs(tmp_path / "nothing").forget(VALUES) == 0


def test_a_log_that_cannot_be_changed_is_a_place_with_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "lakewarden.log"
    log.write_bytes("ann\u00e4@x.org".encode())
    opened = Path.open

    def refused(self: Path, mode: str = "r", **options: object) -> object:
        if mode == "r+b":
            raise PermissionError(13, "Permission denied")
        return opened(self, mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(TracesLeft, match=r"lakewarden\.log cannot be searched and redacted") as error:
        OwnLogs(tmp_path).forget(VALUES)
    assert error.value.details["places"] == [{"object": str(log), "where": "log file"}]


def test_a_log_rotated_between_search_and_overwriting_is_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, rotated = tmp_path / "lakewarden.log", tmp_path / "lakewarden.log.1"
    log.write_bytes("of ann\u00e4@x.org".encode())
    opened = Path.open

    def rotating(self: Path, mode: str = "r", **options: object) -> object:
        if mode == "r+b" and not rotated.exists():
            log.rename(rotated)
            log.write_bytes(b"new")
        return opened(self, mode, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", rotating)
    assert OwnLogs(tmp_path).forget(VALUES) == 1
    assert log.read_bytes() == b"new" and rotated.read_bytes() == b"of ***********"


def test_a_compressed_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lakewarden.log.2.gz").write_bytes(gzip.compress(b"any"))
    with pytest.raises(TracesLeft, match=r"log\.2\.gz cannot be searched and redacted: it is compressed") as error:
        OwnLogs(tmp_path).forget(VALUES)
    assert "Decompress or delete it" in error.value.hint
