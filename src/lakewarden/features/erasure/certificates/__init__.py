"""What a certificate of erasure says, how it is signed, and how it looks."""
