"""Parameters that the main thread lets go of while another thread, whose first step it is, has them compared over the ranks."""
import threading

import torch

torch.manual_seed(1)
batch = torch.randn(12, 6)
for round in range(6):
    parameters = [torch.nn.Parameter(torch.randn(600, 600)) for _ in range(60)]
    kept = torch.nn.Linear(6, 3)
    begins = threading.Event()
    losses = []

    def train():
        optimizer = torch.optim.SGD(kept.parameters(), 0.1)
        begins.set()
        for _ in range(3):
            optimizer.zero_grad()
            loss = kept(batch).pow(2).mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())

    thread = threading.Thread(target=train)
    thread.start()
    begins.wait()
    while parameters:
        parameters.pop()
    thread.join()
    print("round", round, "losses", *[f"{loss:.6f}" for loss in losses])
