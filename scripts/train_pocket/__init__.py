"""From nothing to the pocket checkpoint: texts, teacher audio, codec, speaker encoder, talker. See README.md."""
