"""Recordings of voices to clone: where they may come from, what they must be, and the voices made of them."""
