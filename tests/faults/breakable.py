"""``python -m tests.faults.breakable serve ...`` runs ``sonant serve ...`` with ``broken_worker`` as engine process.

The back-off of restarts does not grow, as if a minute lay between the losses of a process.
"""

from engine import transfer
from engine.client import process as engine_process
from engine.client import restarts


def spawn(command, sides, **options):
    command = ["tests.faults.broken_worker" if word == "engine.worker" else word for word in command]
    return transfer.spawn(command, sides, **options)


if __name__ == "__main__":
    from server.cli.main import main
    from server.http import child_process

    engine_process.spawn = spawn
    restarts._HEALTHY_S = child_process._HEALTHY_S = 0.0
    main()
