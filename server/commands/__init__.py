"""The commands of ``sonant``, one file each."""
