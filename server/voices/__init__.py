"""Named voices: built-in speakers of the checkpoint, and voices stored by clients."""
