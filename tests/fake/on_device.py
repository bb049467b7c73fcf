#!/usr/bin/env python3
"""on_device.py DEVICE PROGRAM [argument...]: a program in Python whose tensors are on an accelerator, unless it says where: `cuda`, or the library of
tests/fake/accelerator.cpp, an accelerator without hardware."""

import ctypes
import os
import runpy
import sys
import types

device, program = sys.argv[1:3]
if device.endswith(".so"):
    ctypes.CDLL(device)  # before PyTorch has begun: it counts its devices once

import torch  # noqa: E402

if device.endswith(".so"):
    module = types.ModuleType("torch.fake")
    for name in ["is_available", "is_initialized"]:
        setattr(module, name, lambda: True)
    module.device_count, module.current_device = lambda: 1, lambda: 0
    module._is_in_bad_fork, module._lazy_init, module.manual_seed_all = lambda: False, lambda: None, lambda seed: None
    torch.utils.rename_privateuse1_backend("fake")
    torch._register_device_module("fake", module)
    device = "fake"
torch.set_default_device(device)
torch.backends.cudnn.allow_tf32 = False  # three digits, of which kernels for other numbers of rows leave other ones
torch.backends.cudnn.deterministic = True
sys.argv = sys.argv[2:]
sys.path[0] = os.path.dirname(os.path.abspath(program))
runpy.run_path(program, run_name="__main__")
