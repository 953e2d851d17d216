"""Reference recordings for voice cloning: allowed sources, fetching, decoding, validation and cached voices."""
