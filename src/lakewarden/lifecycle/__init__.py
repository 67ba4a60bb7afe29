"""The shape of everything Lakewarden does: questions, operations, plans and the runner. Knows no feature."""
