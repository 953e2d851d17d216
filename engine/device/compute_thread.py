"""A thread in which both stages compute in turn, on all cores."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

import torch

_P = ParamSpec("_P")
_T = TypeVar("_T")


class ComputeThread:
    """Runs one call at a time, in the order in which the calls were made.

    OpenMP (libgomp) keeps a team of threads for each thread that computes with more than one, until that thread ends.
    While the members of all teams outnumber the cores, they sleep at once when they have nothing to do, and waking them
    takes longer than most products: a frame of a 0.6B talker then takes twice the time. So in a process with a
    ComputeThread, no other thread may compute with more than one thread, except while the stages load.
    """

    def __init__(self, threads: int) -> None:
        """threads: size of the team, this thread included."""
        self.threads = threads
        self._executor = ThreadPoolExecutor(1, "compute")
        others = torch.get_num_threads()
        self.run(_set_threads, threads)
        torch.set_num_threads(others)  # of threads that start later, too

    def run(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run ``call`` in the thread, wait, and return its result. Raises its exception.

        Called in the thread itself, it would wait for ever.
        """
        return self._executor.submit(call, *args, **kwargs).result()


def _set_threads(threads: int) -> None:
    torch.get_num_threads()  # the first call in a thread takes the number that another thread has set last
    torch.set_num_threads(threads)
