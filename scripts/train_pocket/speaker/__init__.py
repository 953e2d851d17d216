"""Training of the speaker encoder, and x-vectors for the talker's training."""
