"""``python -m server.references PARENT_PID``: starts the decoder worker with a low CPU priority.

The imports take most of the time of its start. They have the low priority too, so a start does not disturb speech.
"""

import os

if __name__ == "__main__":
    os.nice(10)

    from server.references.worker import main

    main()
