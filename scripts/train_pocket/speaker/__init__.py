"""Training of the speaker encoder, and the x-vectors that the talker is trained with."""
