"""What Lakewarden can do: one folder a noun, one file a verb, and the concepts that a noun's verbs share."""

NOUNS = ("lake", "table", "version", "retention", "orphan", "compaction", "erasure", "policy", "operation")
