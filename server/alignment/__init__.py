"""Word timestamps: aligns speech with the text that it speaks, in numpy, without torch."""
