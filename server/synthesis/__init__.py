"""Speech synthesis for a request: admission, start, deadlines, streaming."""
