"""Commands outside the packages: training of the pocket checkpoint, and the judge of speech quality."""
