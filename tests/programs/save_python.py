# Trains a few steps, saves with torch.save by name and reads back. save_python.py FILE [large]
# save_python.py FILE objects: to files that the program opens itself, thirty times; processes come to it at different times
import os
import sys

import torch

torch.manual_seed(7)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def train():
    for _ in range(3):
        x = torch.randn(10, 4)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()


def save_object(path):
    sum(range(os.getpid() % 3 * 100000))
    with open(path, "wb") as file:
        torch.save({"model": model.state_dict(), "large": torch.zeros(1 << 16)}, file)
    with open(path, "rb") as file:
        model.load_state_dict(torch.load(file)["model"])


train()
name = sys.argv[1]
try:
    if sys.argv[2:] == ["objects"]:
        for _ in range(30):
            save_object(name)
            train()
    elif len(sys.argv) > 2:
        torch.save(torch.zeros(16 << 20), name)
        print("large: sum %.4f" % torch.load(name).sum().item())
    else:
        for _ in range(2):
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, name)
            model.load_state_dict(torch.load(name)["model"])
except RuntimeError as error:
    print("not saved:", str(error).split(".")[0])
train()
print("weight: sum %.4f" % model.weight.sum().item())
