"""What Lakewarden can do: one folder per noun, one file per verb, and the modules that a noun's verbs share."""

NOUNS = (
    "lake",
    "table",
    "version",
    "retention",
    "orphan",
    "compaction",
    "erasure",
    "policy",
    "compare",
    "viewset",
    "migration",
    "backfill",
    "sequence",
    "operation",
)
