"""Mixed load: checks the codes and samples of every response."""
