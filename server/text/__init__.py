"""The text front end: turns text as people type it into the words a voice should say. Pure functions, torch-free.

``frontend.spoken`` handles a whole text, ``live.LiveFrontend`` a text that arrives in deltas.
"""
