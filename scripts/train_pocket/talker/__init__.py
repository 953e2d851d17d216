"""Training of the talker and the code predictor."""
