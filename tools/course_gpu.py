"""The GPUs of this machine, as their driver tells of them: no program of NVIDIA's is needed for it."""
import contextlib
import ctypes
import os
import re
import shutil
from pathlib import Path

DRIVERS = ["libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"]
NAME_BYTES = 256
CAPABILITY_MAJOR, CAPABILITY_MINOR = 75, 76             # CUdevice_attribute of the CUDA Driver API


def library():
    for name in DRIVERS:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def cards(cuda=None):
    """([{name, capability, gib}], ""), or ([], why there is none). `cuda`: the driver's library, found if not given."""
    cuda = cuda or library()
    if not cuda:
        return [], "no GPU driver, libcuda.so.1"
    code = cuda.cuInit(0)
    if code:
        text = ctypes.c_char_p()
        cuda.cuGetErrorString(code, ctypes.byref(text))
        return [], f"the driver answers: {(text.value or b'error %d' % code).decode()}"
    count = ctypes.c_int()
    cuda.cuDeviceGetCount(ctypes.byref(count))
    found = []
    for number in range(count.value):
        device, name, memory = ctypes.c_int(), ctypes.create_string_buffer(NAME_BYTES), ctypes.c_size_t()
        major, minor = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGet(ctypes.byref(device), number)
        cuda.cuDeviceGetName(name, NAME_BYTES, device)
        cuda.cuDeviceTotalMem_v2(ctypes.byref(memory), device)
        cuda.cuDeviceGetAttribute(ctypes.byref(major), CAPABILITY_MAJOR, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), CAPABILITY_MINOR, device)
        found.append({"name": name.value.decode(), "capability": f"{major.value}.{minor.value}", "gib": round(memory.value / 2**30)})
    return found, "" if found else "the driver sees none"


def words(found):
    """"2 x NVIDIA H100 80GB HBM3 (compute capability 9.0, 80 GiB)" """
    first = found[0]
    return (f"{len(found)} x " if len(found) > 1 else "") + f"{first['name']} (compute capability {first['capability']}, {first['gib']} GiB)"


def driver_version(cuda=None):
    """("580.159.04", "13.0"): the driver's own, and the CUDA that it is for; "" where nobody says."""
    own = ""
    with contextlib.suppress(OSError):
        found = re.search(r"\s(\d+\.\d+(\.\d+)?)\s", Path("/proc/driver/nvidia/version").read_text())
        own = found.group(1) if found else ""
    cuda, number = cuda or library(), ctypes.c_int()
    if not cuda or cuda.cuDriverGetVersion(ctypes.byref(number)):
        return own, ""
    return own, f"{number.value // 1000}.{number.value % 1000 // 10}"


def nvcc():
    """The path of CUDA's compiler, or None; where CMake looks for it."""
    homes = [os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    return shutil.which("nvcc") or next((f"{h}/bin/nvcc" for h in homes if h and os.access(f"{h}/bin/nvcc", os.X_OK)), None)


def built(cache):
    """Whether a build, by CMake's answers, has CUDA; one that is not configured yet will have it."""
    return not cache or cache.get("COURSE_CUDA_CHOSEN") == "on"  # cmake/Cuda.cmake
