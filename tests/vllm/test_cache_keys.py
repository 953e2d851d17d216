"""The keys of Triton's cache are the same in the engine and in the processes that compile kernels ahead."""

import os
import subprocess
import sys

KEYS = """
import sys
from triton.runtime.jit import JITFunction
from engine.kernels import codec_kernels
from engine.talker.fused.launches import first_codes, paged_attention, rows, sampling
modules = codec_kernels, first_codes, paged_attention, rows, sampling
kernels = [each for module in modules for each in vars(module).values() if isinstance(each, JITFunction)]
if sys.argv[1] == "backwards":
    kernels.reverse()
print(len(kernels), sorted((each.__name__, each.cache_key) for each in kernels))
"""


def keys(order):
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-c", KEYS, order]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=100).stdout


def test_a_key_does_not_depend_on_the_order_of_launches():
    forwards = keys("forwards")
    assert "causal_product" in forwards
    assert keys("backwards") == forwards
