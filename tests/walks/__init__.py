"""Random walks: nouns at work while other engines change the same tables, compared with a model after every step."""
