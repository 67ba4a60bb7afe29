"""What nouns store in the control database: plain values, and the protocols of their stores.

One module per noun. Features use them, and `state/` implements the stores.
"""
