"""Branches that tasks of a pool compute, and one backward through all: the engine takes nodes by their age, which each thread counts for itself."""
from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(0)
data = torch.randn(40, 6)


def learn(pool):
    branches = [torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4)) for _ in range(4)]
    for _ in range(20):
        loss = sum(out.pow(2).mean() + out.max() for out in pool.map(lambda i: branches[i](data).sigmoid(), range(4)))
        for branch in branches:
            branch.zero_grad()
        loss.backward()
        with torch.no_grad():
            for branch in branches:
                for parameter in branch.parameters():
                    parameter -= 0.1 * parameter.grad
        print(f"{loss.item():.5f}", *(f"{branch[0].weight.grad.norm().item():.5f}" for branch in branches))


with ThreadPoolExecutor(2) as workers:
    learn(workers)
