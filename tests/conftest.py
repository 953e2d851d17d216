"""Fixtures and settings that all tests share."""

import gc
import signal

import pytest
import torch
from hypothesis import settings

from server.alignment.worker import limit_blas_threads
from tests.support.random_checkpoint import RandomCheckpoints

settings.register_profile("untimed", deadline=None)  # other processes share the cores of a CI machine
settings.register_profile("thorough", max_examples=1000, deadline=None)
settings.load_profile("untimed")

# A shell starts `make test &` with SIGINT ignored, and nohup ignores SIGHUP. Processes that tests start and interrupt
# would inherit that.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

torch.backends.cudnn.allow_tf32 = False
torch.set_num_threads(1)  # on two cores, several thread pools mostly wait for each other
limit_blas_threads()


gc.disable()  # until all tests are collected


def pytest_collection_finish() -> None:
    """Garbage collections skip the modules and the collected tests: each pass over them takes half a second."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> RandomCheckpoints:
    return RandomCheckpoints(tmp_path_factory.mktemp("checkpoints"))
