"""Proofs that nothing is left of the values to erase: making and recording them, and reporting what they found."""
