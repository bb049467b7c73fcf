"""Lets a test look at gradients and parameters without printing them: see dump.h, which writes the same lines."""
import os
import time

import torch

_file = None
_written = set()
_cpu_start = 0.0


def _open():
    global _file
    stem = os.environ.get("ACCEL_TEST_DUMP")
    if stem and _file is None:
        _file = open(f"{stem}.{os.getpid()}", "w")
    return _file if stem else None


def _write(file, kind, name, tensor):
    if tensor is None:
        file.write(f"{kind} {name} undefined\n")
        return
    values = tensor.detach().to(torch.float64).reshape(-1).tolist()
    sizes = "x".join(str(size) for size in tensor.shape) or "scalar"
    file.write(" ".join([kind, name, sizes] + [value.hex() for value in values]) + "\n")
    file.flush()


def dump_gradients(model, tag="model"):
    """Call between backward() and step(), every step: only the first call for a tag writes."""
    global _cpu_start
    file = _open()
    if file is None or tag in _written:
        return
    _written.add(tag)
    for name, parameter in model.named_parameters():
        _write(file, "gradient", f"{tag}.{name}", parameter.grad)
    _cpu_start = time.process_time()


def dump_parameters(model, tag="model"):
    """Call once at the end of the program."""
    file = _open()
    if file is None:
        return
    with open(f"{os.environ['ACCEL_TEST_DUMP']}.cpu.{os.getpid()}", "w") as cpu:
        cpu.write(f"{time.process_time() - _cpu_start:.3f}\n")
    for name, parameter in model.named_parameters():
        _write(file, "parameter", f"{tag}.{name}", parameter)
    for name, buffer in model.named_buffers():
        _write(file, "buffer", f"{tag}.{name}", buffer)
