"""Makes ``python -m server.cli`` equivalent to ``sonant``."""

from server.cli.main import main

if __name__ == "__main__":
    main()
