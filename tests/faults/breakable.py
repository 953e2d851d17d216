"""``python -m tests.faults.breakable serve ...`` is ``sonant serve ...`` with ``broken_worker`` as engine process."""

from engine import transfer, worker_handle


def spawn(command, sides, **options):
    command = ["tests.faults.broken_worker" if word == "engine.worker" else word for word in command]
    return transfer.spawn(command, sides, **options)


if __name__ == "__main__":
    from server.cli import main

    worker_handle.spawn = spawn
    main()
