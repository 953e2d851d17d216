"""Several HTTP processes of one server: what the main process and the additional ones tell each other."""
