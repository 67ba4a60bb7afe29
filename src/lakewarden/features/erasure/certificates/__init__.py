"""Certificates of erasure: their content, their signature, and their HTML page."""
