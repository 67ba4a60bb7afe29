"""`lake.state`: a store for each noun, readers and writers apart by type, and one transaction over all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import assert_type
from uuid import uuid4

import pytest

from lakewarden.errors import NotFound, OperationNotFound
from lakewarden.lifecycle.ground import Reader, Writer
from lakewarden.lifecycle.journal import Record
from lakewarden.lifecycle.plan import Plan
from lakewarden.records.erasure import ErasureRequest, KeyAsked, TombstoneReader, Tombstones
from lakewarden.state.database import Database
from lakewarden.state.journal import SqlJournal
from lakewarden.state.stores import StateWriter

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)


def readers_and_writers_are_apart(question: Reader, action: Writer) -> None:
    """Checked by mypy: what a question gets has no method that writes."""
    assert_type(question.state.erasure, TombstoneReader)
    assert_type(action.state.erasure, Tombstones)


def asked() -> ErasureRequest:
    key = KeyAsked("main.crm.people", "uuid-1", "email", 2, "string")
    return ErasureRequest(f"er-{uuid4()}", NOW, "somebody", "", "", None, NOW, (key,), 0)


def record() -> Record:
    return Record.planned(f"op-{uuid4()}", Plan("a.b", "c"), "{}", "somebody", NOW)


def test_what_is_written_together_is_there_together(database: Database) -> None:
    state, journal, request, made = StateWriter(database), SqlJournal(database), asked(), record()
    with state.together():
        state.erasure.add(request, {0: iter(["a@x.org"])})
        journal.add(made)
    assert state.erasure.get(request.id).requester == "somebody"
    assert journal.get(made.id).kind == "a.b"


def test_or_none_of_it_is(database: Database) -> None:
    state, journal, request, made = StateWriter(database), SqlJournal(database), asked(), record()
    with pytest.raises(ZeroDivisionError), state.together():
        journal.add(made)
        state.erasure.add(request, {0: iter(["a@x.org"])})
        raise ZeroDivisionError
    with pytest.raises(NotFound):
        state.erasure.get(request.id)
    with pytest.raises(OperationNotFound):
        journal.get(made.id)
    journal.add(made)  # and the next transaction is one of its own
    assert journal.get(made.id).kind == "a.b"
