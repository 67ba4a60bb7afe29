"""SQL that callers write: parsed here, and run over versions that are pinned and without hidden rows."""
