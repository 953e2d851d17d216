"""Commands beside the packages: the training of the pocket checkpoint, and the judge of how one speaks."""
