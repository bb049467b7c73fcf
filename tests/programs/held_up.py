# What takes rank 0 alone long: prints much in each step, or saves twice. held_up.py prints | saves FILE
import os
import sys

import torch

torch.manual_seed(1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
inputs, targets = torch.randn(8, 8), torch.randn(8, 1)


def step():
    loss = ((model(inputs) - targets) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for number in range(6):
    step()
    if sys.argv[1] == "prints":
        print(str(number) * 100000, flush=True)
if sys.argv[1] == "saves":
    state = {str(number): torch.full((300000,), float(number)) for number in range(8)}
    torch.save(state, sys.argv[2])
    step()
    with open(sys.argv[2] + ".again", "wb") as file:
        torch.save(state, file)
    print(os.path.getsize(sys.argv[2]) > 9600000, torch.load(sys.argv[2] + ".again")["7"][-1].item())
print("loss", step())
