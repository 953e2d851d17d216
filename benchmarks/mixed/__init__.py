"""Mixed load: every stream is judged code by code."""
