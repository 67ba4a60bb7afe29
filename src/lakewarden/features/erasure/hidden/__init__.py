"""Hiding rows on branches with delete files: which rows are still visible, which files must stay, how to undo it."""
