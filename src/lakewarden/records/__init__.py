"""What nouns keep in the control database: plain values, and what a store of them must be able to do.

One module for each noun. It is code of neither side: features use it, and `state/` implements the stores.
"""
