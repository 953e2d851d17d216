"""Guards: detect silent, runaway, truncated and repeating speech, and make a piece again while it is unheard."""
