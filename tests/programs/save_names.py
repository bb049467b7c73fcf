"""Saves under names that no two processes have: in temporary folders and files, with the time and with the process number in them."""
import datetime
import glob
import os
import tempfile

import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
model(torch.randn(8, 4)).sum().backward()


def same(path):
    state = torch.load(path)
    return all(torch.equal(state[name], value) for name, value in model.state_dict().items())


with tempfile.TemporaryDirectory() as folder:
    best = os.path.join(folder, "best.pt")
    torch.save(model.state_dict(), best)
    print("temporary folder", os.listdir(folder), same(best))
with tempfile.NamedTemporaryFile(suffix=".pt") as file:
    torch.save(model.state_dict(), file.name)
    print("temporary file", os.path.getsize(file.name) > 500, same(file.name))
run = f"runs/{datetime.datetime.now():%Y%m%d-%H%M%S.%f}"
os.makedirs(run)
torch.save(model.state_dict(), run + "/model.pt")
print("folder with the time", os.listdir(run), same(run + "/model.pt"))
name = f"checkpoint_{os.getpid()}.pt"
torch.save(model.state_dict(), name)
print("process number", len(glob.glob("checkpoint_*")), same(name))
os.rename(name, "checkpoint.pt")
print("renamed", sorted(os.listdir(".")), same("checkpoint.pt"))
