"""Commands, and files of a package that puts them in their place by system calls of its own, after `import torch` and before there is a model."""
import importlib.util
import os
import subprocess
import sys

import torch

spec = importlib.util.spec_from_file_location("absent", "absent.py", loader=importlib.util.LazyLoader(importlib.machinery.SourceFileLoader("absent", "absent.py")))
sys.modules["absent"] = importlib.util.module_from_spec(spec)  # loaded when it is used, which nobody does: it is not there
spec.loader.exec_module(sys.modules["absent"])

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fake"))
from safetensors import serialize_file

subprocess.run(["mkdir", "made"], check=True)
print(subprocess.check_output("echo once >>log; cat log", shell=True))
serialize_file({"zeros": {"dtype": "F32", "shape": [3], "data": bytes(12)}}, "before.safetensors")

torch.manual_seed(1)
model = torch.nn.Linear(6, 3)
model(torch.randn(13, 6)).pow(2).mean().backward()
print(f"{model.weight.grad.sum().item():.5f} {sorted(os.listdir('.'))}")
