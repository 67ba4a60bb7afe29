"""REST: each capability at /api/v1/NOUN/VERB, derived from its declaration."""
