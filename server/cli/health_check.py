"""The health check of the container image: ``python -m server.cli.health_check`` exits with 0 if the server is ready.

It finds the server by its ``address_file``, so it follows every way to set the port. It uses the standard library only:
the ``sonant`` command takes a second of CPU time to start, and a container engine runs the check every few seconds.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

_TIMEOUT_SECONDS = 4.0
"""Shorter than the timeout of the health check in the Dockerfile. The server answers within 0.2 s."""


def main() -> None:
    """Ask ``/ready`` of the server of this container. Exit with a message if it does not answer 200."""
    file = Path(os.environ.get("SONANT_ADDRESS_FILE", ""))
    try:
        url = file.read_text().strip()
    except OSError as error:
        sys.exit(f"no server is running: SONANT_ADDRESS_FILE={file}: {error.strerror}")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(f"{url}/ready", timeout=_TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}/ready returned status {error.code}: {error.read().decode(errors='replace')}")
    except OSError as error:
        sys.exit(f"{url}/ready does not answer: {error}")


if __name__ == "__main__":
    main()
