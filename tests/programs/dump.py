"""Lets a test look at gradients and parameters without printing them: see dump.h, which writes the same lines."""
import os

import torch

_file = None
_written = set()


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
    file = _open()
    if file is None or tag in _written:
        return
    _written.add(tag)
    for name, parameter in model.named_parameters():
        _write(file, "gradient", f"{tag}.{name}", parameter.grad)


def dump_parameters(model, tag="model"):
    """Call once at the end of the program."""
    file = _open()
    if file is None:
        return
    for name, parameter in model.named_parameters():
        _write(file, "parameter", f"{tag}.{name}", parameter)
    for name, buffer in model.named_buffers():
        _write(file, "buffer", f"{tag}.{name}", buffer)
