"""How much memory a program has, for those of this folder that print whether they keep any."""
import ctypes
import os


class Allocated(ctypes.Structure):  # mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]


def allocated():
    """Bytes that this process has got from malloc and not given back; 0 where the C library does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if not ask:
        return 0
    ask.restype = Allocated
    numbers = ask()
    return numbers.uordblks + numbers.hblkhd


def resident():
    """Bytes of memory that this process has in use."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
