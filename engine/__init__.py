"""The speech engine: text in, codec frames and samples out. Never imports ``server``."""
