"""The life cycle of everything Lakewarden does: questions, operations, plans and the runner. Knows no feature."""
