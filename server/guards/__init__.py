"""Guards: detect silent, runaway, truncated and repeating speech, and make a piece that nobody heard again."""
