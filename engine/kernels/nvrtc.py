"""Compiles CUDA C++ at run time with the NVRTC that ships with torch, and launches the kernels."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from engine.system.cache_folder import cache_folder, write_atomically

CUDA = Path(__file__).parent / "cuda"
"""Headers that kernels of other packages may include."""
_MAX_DYNAMIC_SHARED_SIZE = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"""


class CooperativeKernel:
    """A kernel whose blocks are all resident on the GPU at once, so that they can synchronize with each other.

    name: the kernel's name in the cubin. The cubin's constant int ``shared_bytes`` is the shared memory per block.
    Calling the object launches the kernel on the current CUDA stream; a stream in capture mode captures the launch.
    Raises KernelError.
    """

    def __init__(self, cubin: bytes, name: str, *, blocks: int, threads: int, device: torch.device) -> None:
        torch.zeros(1, device=device)  # creates torch's CUDA context, into which the driver loads the module
        self._driver = _driver()
        self._module, self._function, self._cubin = ctypes.c_void_p(), ctypes.c_void_p(), cubin
        with torch.cuda.device(device):
            self._call("cuModuleLoadData", ctypes.byref(self._module), cubin)
            self._call("cuModuleGetFunction", ctypes.byref(self._function), self._module, name.encode())
            shared = self._constant("shared_bytes")
            self._call("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED_SIZE, shared)
        self._sizes = [ctypes.c_uint(each) for each in (blocks, 1, 1, threads, 1, 1, shared)]

    def __call__(self, params: ctypes.Structure) -> None:
        """Launch with ``params``, the kernel's only parameter. The memory it points to must outlive the launch."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(params))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._call("cuLaunchCooperativeKernel", self._function, *self._sizes, stream, arguments)

    def _constant(self, name: str) -> int:
        address, size, value = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_int()
        outputs = ctypes.byref(address), ctypes.byref(size)
        self._call("cuModuleGetGlobal_v2", *outputs, self._module, name.encode())
        self._call("cuMemcpyDtoH_v2", ctypes.byref(value), address, ctypes.c_size_t(ctypes.sizeof(value)))
        return value.value

    def _call(self, function: str, *arguments: object) -> None:
        error = getattr(self._driver, function)(*arguments)
        if error:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(error, ctypes.byref(text))
            raise KernelError(f"{function}: {(text.value or b'').decode()} ({error})")


def _driver() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise KernelError(f"loading the CUDA driver failed: {error}") from error


_log = logging.getLogger(__name__)
_DIGEST_BYTES = 32
_PACKAGE, _PACKAGE_12 = "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"


class KernelError(Exception):
    """A kernel could not be compiled, loaded or launched."""


def compile_cubin(source: Path, options: Sequence[str], *, include: Sequence[Path] = ()) -> bytes:
    """Return the cubin of a source file: from the user's cache, or compiled and added to the cache.

    The headers are the ``*.h`` files in the same folder and in the folders ``include``. The cache key is a hash of the
    sources, the options and NVRTC's version. Raises KernelError.
    """
    folders = (*include, source.parent)
    headers = {path.name: path.read_text() for folder in folders for path in sorted(folder.glob("*.h"))}
    text, compiler = source.read_text(), _Compiler()
    key_parts = [text, *(part for header in headers.items() for part in header), *options, compiler.version]
    key = hashlib.sha256("\0".join(key_parts).encode()).hexdigest()[:32]
    folder = cache_folder()
    file = None if folder is None else folder / "kernels" / f"{source.stem}-{key}.cubin"
    cubin = None if file is None else _read_cached(file)
    if cubin is None:
        cubin = compiler(source.name, text, headers, options)
        if file is not None:
            _write_cached(file, cubin)
    return cubin


def _read_cached(file: Path) -> bytes | None:
    """Return the cubin in a cache file, or None. A file that does not match its digest is deleted."""
    try:
        data = file.read_bytes()
        digest, cubin = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if digest == hashlib.sha256(cubin).digest():
            return cubin
        _log.info("compiling the kernel again: %s is damaged", file)
        file.unlink()
    except OSError:
        pass
    return None


def _write_cached(file: Path, cubin: bytes) -> None:
    """Write a cubin to the cache. Write errors are logged."""
    try:
        write_atomically(file, hashlib.sha256(cubin).digest() + cubin)
    except OSError as error:
        _log.info("the compiled kernel could not be cached: %s", error)


class _Compiler:
    def __init__(self) -> None:
        self._nvrtc = _library()
        self._nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        self.version = f"{major.value}.{minor.value}"

    def __call__(self, name: str, source: str, headers: dict[str, str], options: Sequence[str]) -> bytes:
        program = ctypes.c_void_p()
        texts = (ctypes.c_char_p * len(headers))(*(text.encode() for text in headers.values()))
        names = (ctypes.c_char_p * len(headers))(*(header.encode() for header in headers))
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(headers), texts, names
        )
        try:
            flags = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
            self._call("nvrtcCompileProgram", program, len(options), flags, program=program)
            return self._text("CUBIN", program)
        finally:
            self._nvrtc.nvrtcDestroyProgram(ctypes.byref(program))

    def _text(self, kind: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{kind}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._call(f"nvrtcGet{kind}", program, buffer)
        return buffer.raw

    def _call(self, name: str, *arguments: object, program: ctypes.c_void_p | None = None) -> None:
        error = getattr(self._nvrtc, name)(*arguments)
        if error:
            log = self._text("ProgramLog", program).rstrip(b"\0").decode() if program else ""
            raise KernelError(f"{name}: {self._nvrtc.nvrtcGetErrorString(error).decode()} {log}".rstrip())


def _library() -> ctypes.CDLL:
    """Load the first NVRTC library that works. Raises KernelError when there is none."""
    for path in _candidates():
        try:
            for builtins in Path(path).parent.glob("libnvrtc-builtins.so*"):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise KernelError("libnvrtc was not found: install torch with CUDA, or nvidia-cuda-nvrtc")


def _candidates() -> Iterator[str]:
    """Yield paths of NVRTC: from pip packages, then next to torch, then names for the loader's search path.

    The package for torch's version of CUDA comes first: a driver may not load what a newer NVRTC compiled.
    """
    cuda_12 = (torch.version.cuda or "").startswith("12.")
    for package in (_PACKAGE_12, _PACKAGE) if cuda_12 else (_PACKAGE, _PACKAGE_12):
        try:
            files = importlib.metadata.files(package) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        yield from (str(file.locate()) for file in files if file.name.startswith("libnvrtc.so"))
    yield from (str(path) for path in Path(torch.__file__).parents[1].glob("nvidia/*/lib/libnvrtc.so*"))
    major = (torch.version.cuda or "").partition(".")[0]
    yield from (f"libnvrtc.so.{major}", "libnvrtc.so")
