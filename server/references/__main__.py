"""``python -m server.references PARENT_PID``: starts the decoder worker with a low CPU priority.

The imports take most of the time of its start. They have the low priority too, so a start does not disturb speech.
"""

import os

os.nice(10)

from server.references.worker import main  # noqa: E402

main()
