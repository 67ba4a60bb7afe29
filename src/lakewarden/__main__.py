"""`lakewarden`, and `python -m lakewarden`."""

import signal


def main() -> None:
    """The command line. While it is imported, an interrupt ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lakewarden.doors.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
