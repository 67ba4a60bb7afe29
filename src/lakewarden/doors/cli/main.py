"""Where the command line begins and ends: exit codes, errors in one line, and the last handler for defects."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

import click

from lakewarden.config import Environment
from lakewarden.doors.cli.commands import root
from lakewarden.doors.cli.logs import RedactingFormatter, redacted
from lakewarden.errors import Interrupted, LakewardenError, WrongUse
from lakewarden.lifecycle import interrupts


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    interrupts.listen(signal.SIGINT, signal.SIGTERM)
    atexit.register(_ignore_signals)  # first to be registered, last to be called
    try:
        _log_to_file(Environment.read().logs / "lakewarden.log")
        code = run(given)
    except KeyboardInterrupt:  # the last of several: it wants no more words
        code = Interrupted.exit_code
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: os._exit(code))  # all that is left is to end
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read us has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _ignore_signals() -> None:
    """While Python takes itself apart a signal would end it with another exit code than the command's."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def run(arguments: Sequence[str]) -> int:
    """Run one command; everything that can go wrong becomes a message and an exit code."""
    as_json = "--json" in arguments
    try:
        result = root.main(args=list(arguments), prog_name="lakewarden", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except LakewardenError as error:
        return _tell(_or_interrupted(error), as_json)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "lakewarden"
        return _tell(WrongUse(error.format_message(), f"{command} --help tells what it takes."), as_json)
    except click.ClickException as error:
        return _tell(LakewardenError(error.format_message()), as_json)
    except (KeyboardInterrupt, click.Abort):
        return _tell(_stopped(), as_json)
    except BrokenPipeError:
        return 0
    except Exception as defect:  # noqa: BLE001 - the last handler: a traceback never reaches a user
        return _tell(_stopped() if interrupts.heard() else _incident(defect), as_json)


def _log_to_file(path: Path) -> None:
    """What Lakewarden and Python's warnings have to say beside the answer; nothing of it goes to the terminal."""
    handler: logging.Handler = logging.NullHandler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path)  # opened now: a log that cannot be opened later would raise into its caller
    except OSError:
        pass  # no place for a log is no reason not to work
    handler.setLevel(logging.WARNING)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.captureWarnings(True)
    logging.getLogger().addHandler(handler)
    for name in ("lakewarden", "py.warnings", "pyiceberg"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False
    sys.unraisablehook = _log_unraisable


def _log_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """An error in a finalizer, an interrupt for one: Python would print its traceback."""
    logging.getLogger(__name__).warning("lost in a finalizer", exc_info=lost.exc_value)


def _tell(error: LakewardenError, as_json: bool) -> int:
    if as_json:
        from lakewarden.doors.documents import encode

        click.echo(encode({"error": error.document()}, indent=2))
    else:
        message = error.message.rstrip(".")
        click.echo(f"{type(error).__name__}: {message}. {error.hint}".rstrip(), err=True)
    return error.exit_code


def _incident(defect: Exception) -> LakewardenError:
    """A defect of ours: the user gets a short word and a number, the log gets the rest."""
    number = secrets.token_hex(4)
    log = Environment.read().logs / "incidents.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"incident {number}\n{redacted(''.join(traceback.format_exception(defect)))}\n")
        where = f"Incident {number} in {log} has the details."
    except OSError:
        where = f"It was a {type(defect).__name__}, and could not be logged to {log}."
    return LakewardenError("something went wrong that Lakewarden did not expect", where, incident=number)


def _stopped() -> Interrupted:
    return Interrupted("stopped", "lakewarden operation list shows whether an operation had begun.")


def _or_interrupted(error: LakewardenError) -> LakewardenError:
    """An interrupt may have been turned into another error on its way, unless that is what became of an operation."""
    is_told = isinstance(error, Interrupted) or error.details.get("operation")
    return error if is_told or not interrupts.heard() else _stopped()
