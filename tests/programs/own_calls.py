"""Files of a package that puts them in their place by system calls of its own (tests/fake/safetensors)."""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "fake"))
torch.manual_seed(1)
model = torch.nn.Linear(6, 3)
batch = torch.randn(13, 6)
import safetensors  # after the model, as a program may that saves in the end

from safetensors import serialize_file


def save(name, tensors):
    flat = {key: {"dtype": str(value.dtype), "shape": list(value.shape), "data": value.numpy().tobytes()} for key, value in tensors.items()}
    serialize_file(flat, name, metadata={"format": "pt"})


for step in range(4):
    output = model(batch)
    loss = output.pow(2).mean()
    loss.backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    save(f"step{step % 2}.safetensors", {"step": torch.arange(step + 3), "signs": (output.detach() > 0).to(torch.int64)})
    print(f"{step} {loss.item():.5f} {sorted(os.listdir('.'))} {os.path.getsize(f'step{step % 2}.safetensors')}", flush=True)
try:
    save("nowhere/model.safetensors", {"step": torch.arange(2)})
except safetensors.SafetensorError as error:
    print(error)
