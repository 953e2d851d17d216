"""``python -m tests.faults.breakable serve ...`` runs ``sonant serve ...`` with ``broken_worker`` as engine process."""

from engine import transfer
from engine.client import process as engine_process


def spawn(command, sides, **options):
    command = ["tests.faults.broken_worker" if word == "engine.worker" else word for word in command]
    return transfer.spawn(command, sides, **options)


if __name__ == "__main__":
    from server.cli.main import main

    engine_process.spawn = spawn
    main()
