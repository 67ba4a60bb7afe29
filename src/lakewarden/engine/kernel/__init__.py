"""Runs in Spark tasks: reads files, drops rows, writes new files, and measures them. Imports nothing else of
Lakewarden.
"""
