"""Rows that hide files mask on branches: which are still visible, who holds them, and how they come back."""
