"""Proofs that nothing is left of what requests ask to erase: made, recorded, and what they found."""
