"""Surfaces that users of other tools already know, one thin file each, calling the Warden only."""
