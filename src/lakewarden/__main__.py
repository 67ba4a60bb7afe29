"""`lakewarden`, and `python -m lakewarden`."""

import gc
import signal

_OBJECTS = 50_000  # a command creates many that live until its end: to look for cycles among them costs time only


def main() -> None:
    """The command line. While it is imported, an interrupt ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(_OBJECTS)
    from lakewarden.doors.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
