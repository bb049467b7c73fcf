"""Two threads train, one of them with batches that are too small to be divided, whose backward begins while the other's is under way."""
import threading

import torch

under_way, ended = threading.Event(), threading.Event()


class Lasting(torch.autograd.Function):
    """Its backward waits for the other thread's, which waits for it where one thread of the engine's runs both: then not for ever."""

    @staticmethod
    def forward(ctx, values):
        return values * 1

    @staticmethod
    def backward(ctx, gradient):
        under_way.set()
        ended.wait(4)
        return gradient * 1


torch.manual_seed(1)
large, small = torch.nn.Linear(6, 3), torch.nn.Linear(6, 3)
batch, pair = torch.randn(24, 6), torch.randn(2, 6)
for model in large, small:  # both are known, and so is each thread
    model(batch).pow(2).mean().backward()


def train_beside():
    loss = small(pair).pow(2).mean()
    under_way.wait()
    loss.backward()
    ended.set()


thread = threading.Thread(target=train_beside)
thread.start()
Lasting.apply(large(batch)).pow(2).mean().backward()
thread.join()
print(f"{large.weight.grad.sum().item():.5f} {small.weight.grad.sum().item():.5f}")
