"""CUDA source, compiled for the GPU at hand when it is first needed, by the compiler library that comes with torch."""

import ctypes
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch

from wildspec.errors import WildspecError

MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class KernelError(WildspecError):
    """CUDA code that could not be compiled, loaded or started."""


class Kernel:
    """A CUDA function with its size; called with tensors, ints and floats on the current stream."""

    def __init__(self, driver: Any, function: ctypes.c_void_p, threads: int, shared: int) -> None:
        self.driver, self.function, self.threads, self.shared = driver, function, threads, shared
        _checked(driver.cuFuncSetAttribute(function, MOST_SHARED, shared), "shared memory")

    def __call__(self, blocks: int, *arguments: torch.Tensor | int | float | None) -> None:
        values = [_value(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        found = self.driver.cuLaunchKernel(
            self.function, blocks, 1, 1, self.threads, 1, 1, self.shared, stream, pointers, None
        )
        _checked(found, "start")


class Long(int):
    """An argument of 64 bits."""


def _value(argument: torch.Tensor | int | float | None) -> Any:
    if isinstance(argument, torch.Tensor):
        return ctypes.c_void_p(argument.data_ptr())
    if argument is None:
        return ctypes.c_void_p(0)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return ctypes.c_longlong(argument) if isinstance(argument, Long) else ctypes.c_int(argument)


class Module:
    """The functions of one source file, compiled for and loaded on the current device."""

    def __init__(self, source: str) -> None:
        torch.cuda.init()
        torch.zeros(1, device="cuda")  # there is a context
        major, minor = torch.cuda.get_device_capability()
        image = compiled(source, f"sm_{major}{minor}")
        self.driver, self.module = _library("libcuda.so.1"), ctypes.c_void_p()
        _checked(self.driver.cuModuleLoadData(ctypes.byref(self.module), image), "load")

    def kernel(self, name: str, threads: int, shared: int = 0) -> Kernel:
        function = ctypes.c_void_p()
        _checked(self.driver.cuModuleGetFunction(ctypes.byref(function), self.module, name.encode()), name)
        return Kernel(self.driver, function, threads, shared)


@cache
def module(device: int) -> Module:
    """kernels.cu, on a device, compiled once a process."""
    with torch.cuda.device(device):
        return Module(files(__package__).joinpath("kernels.cu").read_text())


def compiled(source: str, architecture: str) -> bytes:
    """Machine code of a source text."""
    library, program, size = _nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    _checked(library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0, None, None), "create")
    options = (ctypes.c_char_p * 2)(f"--gpu-architecture={architecture}".encode(), b"--std=c++17")
    if library.nvrtcCompileProgram(program, 2, options):
        library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        library.nvrtcGetProgramLog(program, log)
        raise KernelError(f"kernels.cu does not compile for {architecture}: {log.value.decode()[:300]}")
    _checked(library.nvrtcGetCUBINSize(program, ctypes.byref(size)), "size")
    image = ctypes.create_string_buffer(size.value)
    _checked(library.nvrtcGetCUBIN(program, image), "image")
    return image.raw


def _nvrtc() -> Any:
    """The compiler library: in the packages beside torch's, else where the system has it."""
    beside = sorted((Path(torch.__file__).parent.parent / "nvidia").rglob("libnvrtc.so.[0-9]*"))
    return _library(*map(str, beside), f"libnvrtc.so.{(torch.version.cuda or '0').split('.')[0]}", "libnvrtc.so")


def _library(*names: str) -> Any:
    """The first of these that can be loaded."""
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise KernelError(f"CUDA kernels: none of {', '.join(names)} could be loaded")


def _checked(status: int, what: str) -> None:
    if status:
        raise KernelError(f"CUDA kernels: {what} failed with status {status}")
