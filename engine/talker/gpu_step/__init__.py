"""The device-resident decode step: input rows, sampling and per-utterance state stay on the GPU."""
