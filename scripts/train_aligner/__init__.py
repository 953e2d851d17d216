"""Training of the aligner for word timestamps (server/alignment) on a teacher's phoneme durations."""
