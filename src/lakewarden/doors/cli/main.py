"""The entry point of the command line: exit codes, one-line errors, logging, and the handler for unexpected errors."""

from __future__ import annotations

import atexit
import logging
import os
import secrets
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from lakewarden.config import Environment
from lakewarden.doors.cli.commands import root
from lakewarden.doors.logs import RedactingFormatter, frames, redacted
from lakewarden.errors import Interrupted, LakewardenError, WrongUse
from lakewarden.lifecycle import interrupts


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    interrupts.listen(signal.SIGINT, signal.SIGTERM)
    atexit.register(_ignore_signals)  # first to be registered, last to be called
    try:
        _log_to_file(Environment.read().logs / "lakewarden.log")
        code = run(given)
    except KeyboardInterrupt:  # a repeated interrupt: exit without a message
        code = Interrupted.exit_code
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: os._exit(code))  # nothing is left to do but exit
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _ignore_signals() -> None:
    """A signal during interpreter shutdown would change the exit code."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)


def run(arguments: Sequence[str]) -> int:
    """Run one command; every failure becomes a message and an exit code."""
    as_json = "--json" in arguments
    try:
        result = root.main(args=list(arguments), prog_name="lakewarden", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except LakewardenError as error:
        return _show(_or_interrupted(error), as_json)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "lakewarden"
        return _show(WrongUse(error.format_message(), f"{command} --help shows the arguments."), as_json)
    except click.ClickException as error:
        return _show(LakewardenError(error.format_message()), as_json)
    except (KeyboardInterrupt, click.Abort):
        return _show(_stopped(), as_json)
    except BrokenPipeError:
        return 0
    except Exception as defect:  # noqa: BLE001 - the last handler: a traceback never reaches a user
        return _show(_stopped() if interrupts.received() else _incident(defect), as_json)


def _log_to_file(path: Path) -> None:
    """Send warnings of Lakewarden and Python to a log file, and none to the terminal."""
    handler: logging.Handler = logging.NullHandler()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path)  # opened now: failing later would raise into the code that logs
    except OSError:
        pass  # work without a log
    handler.setLevel(logging.WARNING)
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.captureWarnings(True)
    logging.getLogger().addHandler(handler)
    for name in ("lakewarden", "py.warnings", "pyiceberg"):
        logging.getLogger(name).addHandler(handler)
        logging.getLogger(name).propagate = False
    sys.unraisablehook = _log_unraisable


def _log_unraisable(lost: sys.UnraisableHookArgs) -> None:
    """Log an error in a finalizer, such as an interrupt: Python would print its traceback."""
    logging.getLogger(__name__).warning("error in a finalizer", exc_info=lost.exc_value)


def _show(error: LakewardenError, as_json: bool) -> int:
    if as_json:
        from lakewarden.display import json_bytes

        click.echo(json_bytes({"error": error.document()}, indent=2))
    else:
        message = error.message.rstrip(".")
        click.echo(f"{type(error).__name__}: {message}. {error.hint}".rstrip(), err=True)
    return error.exit_code


def _incident(defect: Exception) -> LakewardenError:
    """An unexpected error: the user gets a number, the log gets the details."""
    number = secrets.token_hex(4)
    log = Environment.read().logs / "incidents.log"
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a") as file:
            file.write(f"incident {number}\n{redacted(frames(defect))}\n")
        where = f"Incident {number} in {log} has the details."
    except OSError:
        where = f"It was a {type(defect).__name__}, and could not be logged to {log}."
    return LakewardenError("an unexpected error occurred", where, incident=number)


def _stopped() -> Interrupted:
    return Interrupted("stopped", "lakewarden operation list shows whether an operation had begun.")


def _or_interrupted(error: LakewardenError) -> LakewardenError:
    """A library may have turned an interrupt into another error; an error of an operation is kept."""
    is_final = isinstance(error, Interrupted) or error.details.get("operation")
    return error if is_final or not interrupts.received() else _stopped()
