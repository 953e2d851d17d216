"""The supervisor alone, with a child process that is scripted by each test."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest

TIMEOUT = 60.0

CHILD = """
import asyncio, os, signal, subprocess, sys, time
from engine.system.logs import set_up_logging
from server.http import supervisor
from server.http.additional_processes import AdditionalProcesses

additional = AdditionalProcesses(None, None, 0)

def say(line):
    os.write(2, f"{line}\\n".encode())

async def serve(heartbeat, stops):
    stop_signals = asyncio.Queue()
    for number, name in ((supervisor.STOP_SIGNAL, "drain"), (supervisor.FORCE_SIGNAL, "stop now")):
        asyncio.get_running_loop().add_signal_handler(number, stop_signals.put_nowait, name)
    beating = asyncio.create_task(heartbeat.run())
    await asyncio.sleep(0)
    say(f"front {os.getpid()}")
    for _ in range(stops):
        say(f"told to {await stop_signals.get()}")

def front(heartbeat, stops=1):
    asyncio.run(serve(heartbeat, stops))
    return 0

set_up_logging("text")
"""
"""Common code of the children; a test adds its own ``front`` and runs the supervisor."""


class SupervisorProcess:
    """A supervisor as a process; its standard error is read line by line."""

    def __init__(self, script: str, stall: float = 30.0, drain: float = 30.0, **options) -> None:
        options_of = f"stall_seconds={stall}, drain_seconds={drain}, additional=additional"
        run = f"sys.exit(supervisor.Supervisor(front, {options_of}).run())"
        command = [sys.executable, "-c", f"{CHILD}\n{script}\n{run}"]
        options = {"stderr": subprocess.PIPE, **options}
        self.process = subprocess.Popen(command, **options)

    def wait_for(self, pattern: str) -> re.Match[str]:
        for line in self.process.stderr:
            if match := re.search(pattern, line.decode()):
                return match
        pytest.fail(f"no {pattern!r}")

    def wait_for_exit(self) -> tuple[int, str]:
        """The exit code, and the remaining output."""
        _, printed = self.process.communicate(timeout=TIMEOUT)
        return self.process.returncode, printed.decode()


def test_a_child_that_never_serves_is_abandoned_after_three_starts() -> None:
    code, printed = SupervisorProcess(
        "def front(heartbeat): say('start'); os.kill(os.getpid(), signal.SIGKILL)"
    ).wait_for_exit()
    assert (code, printed.count("start\n")) == (1, 3)
    assert re.search(r"was killed by SIGKILL; giving up after 3 failed starts", printed)


@pytest.mark.parametrize("code", [0, 1])
def test_a_deliberate_exit_ends_the_supervisor_with_the_same_code(code: int) -> None:
    assert SupervisorProcess(f"def front(heartbeat): say('start'); return {code}").wait_for_exit() == (code, "start\n")


def test_a_child_that_was_ready_once_is_restarted_even_if_it_cannot_load() -> None:
    command = SupervisorProcess("def front(heartbeat):\n    say('start')\n    heartbeat.engine_ready()\n    return 1\n")
    command.wait_for("ended with exit code 1; restarting it in 0.5 s")
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_an_unexpected_exception_is_logged_and_restarts_the_child() -> None:
    command = SupervisorProcess("def front(heartbeat): raise ValueError('a defect')")
    command.wait_for("ValueError: a defect")
    command.wait_for("ended with exit code 70; restarting it in 0.5 s")
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_orphans_of_a_crashed_child_are_killed_before_the_next_start() -> None:
    command = SupervisorProcess(
        "serve_front = front\n"
        "def front(heartbeat):\n"
        "    if 'STARTED' in os.environ: return serve_front(heartbeat)\n"
        "    say(f\"orphan {subprocess.Popen(['sleep', '1000'], process_group=0).pid}\")\n"
        "    time.sleep(1000)\n"
    )
    orphan = psutil.Process(int(command.wait_for(r"orphan (\d+)")[1]))
    [child] = psutil.Process(command.process.pid).children()
    child.kill()
    command.wait_for("was killed by SIGKILL; restarting")
    assert not orphan.is_running()
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_a_child_that_does_not_stop_is_killed() -> None:
    command = SupervisorProcess(
        "supervisor._STOP_GRACE_S = 0.2\nserve_front = front\ndef front(heartbeat): serve_front(heartbeat, stops=9)",
        drain=0,
    )
    command.wait_for("front")
    command.process.terminate()
    code, printed = command.wait_for_exit()
    assert code == 1
    assert re.search(r"did not end within .* s; killing it", printed)


def test_a_hanging_child_prints_its_stack() -> None:
    command = SupervisorProcess(
        "serve_front = front\n"
        "async def serve(heartbeat, stops):\n"
        "    asyncio.create_task(heartbeat.run())\n"
        "    await asyncio.sleep(0)\n"
        "    hang()\n"
        "def hang(): time.sleep(1000)\n",
        stall=1,
    )
    command.wait_for("sent no heartbeat for 1 s; killing it")
    command.wait_for("in hang")
    command.wait_for("was killed by SIGKILL; restarting")
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_a_service_suspended_as_a_whole_is_not_hanging() -> None:
    command = SupervisorProcess("", stall=1)
    front = psutil.Process(int(command.wait_for(r"front (\d+)")[1]))
    command.process.send_signal(signal.SIGSTOP)
    front.suspend()
    time.sleep(2)
    command.process.send_signal(signal.SIGCONT)
    front.resume()
    command.process.terminate()
    code, printed = command.wait_for_exit()
    assert (code, "killing" in printed) == (0, False)


@pytest.mark.parametrize("stops", [1, 2])
def test_ctrl_c_in_a_terminal_counts_once_each_time(stops: int) -> None:
    """Of the terminal's foreground processes only the supervisor receives it, and tells the child."""
    master, terminal = pty.openpty()
    try:
        command = SupervisorProcess(
            "import fcntl, termios\nos.setsid()\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
            f"front.__defaults__ = ({stops},)",
            stdin=terminal,
        )
        command.wait_for("front")
        *earlier, last = ("told to drain", "told to stop now")[:stops]
        for told in earlier:
            os.write(master, b"\x03")
            command.wait_for(told)
        os.write(master, b"\x03")
        assert command.wait_for_exit() == (0, f"{last}\n")
    finally:
        os.close(master)
        os.close(terminal)


RELOADING = """
serve_front = front
def front(heartbeat):
    signal.signal(supervisor.RELOAD_SIGNAL, lambda *_: say('reload'))
    say('starting')
    time.sleep(DELAY)
    return serve_front(heartbeat)
"""
"""A child that says when it is told to reload. DELAY: seconds until it serves."""


def test_sighup_tells_the_child_to_reload_as_soon_as_it_serves() -> None:
    command = SupervisorProcess(f"DELAY = 1\n{RELOADING}")
    command.wait_for("starting")
    for _ in range(2):
        command.process.send_signal(signal.SIGHUP)
        command.wait_for("reload")
    command.process.terminate()
    code, printed = command.wait_for_exit()
    assert (code, printed.endswith("told to drain\n")) == (0, True)


def test_sighup_stops_the_server_when_its_terminal_is_closed() -> None:
    master, terminal = pty.openpty()
    try:
        command = SupervisorProcess(
            f"import fcntl, termios\nos.setsid()\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\nDELAY = 0\n{RELOADING}",
            stdin=terminal,
        )
        command.wait_for("front")
        command.process.send_signal(signal.SIGHUP)
        command.wait_for("reload")
        os.close(master)
        assert command.wait_for_exit() == (0, "told to drain\n")
    finally:
        os.close(terminal)


def test_a_process_whose_parent_has_already_ended_exits_at_once() -> None:
    script = f"from engine.system.process import die_with_parent; die_with_parent({os.getpid()}); print('alive')"
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=TIMEOUT, check=False)
    assert (child.returncode, child.stdout) == (0, b"alive\n")
    other = script.replace(str(os.getpid()), "-1")
    orphan = subprocess.run([sys.executable, "-c", other], capture_output=True, timeout=TIMEOUT, check=False)
    assert (orphan.returncode, orphan.stdout) == (1, b"")


ADDITIONAL = """
import mmap, socket

HANGING, WAITS = mmap.mmap(-1, 1), False

def serve_additional(connection, listener, heartbeat):
    say(f"additional {os.getpid()}")
    asyncio.run(run_additional(connection, heartbeat))
    return 0

async def run_additional(connection, heartbeat):
    stop_signals = asyncio.Queue()
    asyncio.get_running_loop().add_signal_handler(supervisor.STOP_SIGNAL, stop_signals.put_nowait, None)
    connection.sendall(b"connected")
    beating = asyncio.create_task(heartbeat.run())
    await asyncio.sleep(0)
    if HANGING[0]:
        HANGING[0] = 0
        time.sleep(1000)
    await stop_signals.get()
    say("additional stops")

serve_main = front
def front(heartbeat):
    connections = []
    for _ in range(2):
        _, (descriptor,), _, _ = socket.recv_fds(additional.arrivals, 1, 1)
        connections.append(socket.socket(fileno=descriptor))
        say(connections[-1].recv(100).decode())
    code = serve_main(heartbeat)
    for connection in connections if WAITS else ():
        connection.recv(100)  # until the additional process ends
    return code

additional = AdditionalProcesses(serve_additional, lambda: socket.create_server(("127.0.0.1", 0)), 2)
"""
"""Two additional processes. HANGING: whether the event loop of the next one hangs. WAITS: whether the main process ends
after the others, as it does in a server."""


def test_additional_processes_are_connected_to_the_main_one_and_stop_with_it() -> None:
    command = SupervisorProcess(f"{ADDITIONAL}\nWAITS = True")
    for _ in range(2):
        command.wait_for("connected")
    command.wait_for("front")
    command.process.terminate()
    code, printed = command.wait_for_exit()
    assert (code, printed.count("additional stops")) == (0, 2)


def test_a_lost_additional_process_is_started_again_and_the_others_continue() -> None:
    command = SupervisorProcess(ADDITIONAL)
    kept, lost = (psutil.Process(int(command.wait_for(r"additional (\d+)")[1])) for _ in range(2))
    lost.kill()
    command.wait_for(r"HTTP process [23] \(pid \d+\) was killed by SIGKILL; restarting it in 0.5 s")
    assert command.wait_for(r"additional (\d+)")[1] not in (str(kept.pid), str(lost.pid))
    assert kept.is_running()
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_a_hanging_additional_process_is_killed_alone() -> None:
    command = SupervisorProcess(f"{ADDITIONAL}\nHANGING[0] = 1", stall=3)  # on a busy machine others pause for 1 s
    command.wait_for(r"HTTP process [23] \(pid \d+\) sent no heartbeat for 3 s; killing it")
    command.wait_for(r"HTTP process [23] \(pid \d+\) was killed by SIGKILL; restarting it")
    command.process.terminate()
    code, printed = command.wait_for_exit()
    assert (code, "the HTTP process (pid" in printed) == (0, False)


def test_an_address_that_cannot_be_opened_again_is_tried_later() -> None:
    command = SupervisorProcess(
        f"{ADDITIONAL}\n"
        "listen, tries = additional._listen, [1]\n"
        "def fail_once():\n"
        "    if tries.pop() if tries else False: raise OSError('cannot listen')\n"
        "    return listen()\n"
        "additional._listen = fail_once\n"
    )
    command.wait_for("HTTP process 2 could not be started: cannot listen; restarting it in 0.5 s")
    for _ in range(2):
        command.wait_for(r"additional \d+")
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0


def test_additional_processes_end_with_a_crashed_main_process() -> None:
    command = SupervisorProcess(ADDITIONAL)
    first = [psutil.Process(int(command.wait_for(r"additional (\d+)")[1])) for _ in range(2)]
    psutil.Process(int(command.wait_for(r"front (\d+)")[1])).kill()
    command.wait_for(r"the HTTP process \(pid \d+\) was killed by SIGKILL; restarting")
    assert not any(each.is_running() for each in first)
    command.wait_for(r"additional \d")
    command.process.terminate()
    assert command.wait_for_exit()[0] == 0
