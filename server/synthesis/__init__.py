"""Speech synthesis for a request: admission, start, first-audio deadline, streaming."""
