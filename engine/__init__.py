"""The speech engine: turns text into codec frames and samples. Never imports ``server``."""
