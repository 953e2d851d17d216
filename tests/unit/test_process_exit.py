"""How a worker process exits."""

import subprocess
import sys

WORKER = """
import atexit, logging, sys, threading
from engine.system.process import exit_immediately

def finalize():
    print("finalized", flush=True)
    threading.Event().wait()

atexit.register(finalize)
logging.basicConfig(stream=sys.stderr)
logging.warning("the last log line")
sys.stdout.write("the last output")
exit_immediately()
"""


def test_a_worker_exits_without_finalization_and_without_loss_of_output():
    ended = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, timeout=60)

    assert (ended.returncode, ended.stdout) == (0, "the last output")
    assert "the last log line" in ended.stderr
