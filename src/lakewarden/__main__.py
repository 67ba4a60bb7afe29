"""`python -m lakewarden`."""

from lakewarden.doors.cli.main import main

main()
