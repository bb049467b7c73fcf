"""A process of its own does all the training. Arguments: fork, spawn, forkserver or command; also: the process that starts it trains first."""
import multiprocessing
import subprocess
import sys

import torch


def train(steps):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(steps):
        loss = model(torch.randn(8, 4)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("%.4f" % loss.item(), flush=True)


if sys.argv[1:] == ["itself"]:
    train(3)
    sys.exit()
if __name__ == "__main__":
    if "command" in sys.argv:
        sys.exit(subprocess.run([sys.executable, __file__, "itself"]).returncode)
    if "also" in sys.argv:
        train(2)
    process = multiprocessing.get_context(sys.argv[1]).Process(target=train, args=(3,))
    process.start()
    process.join()
    sys.exit(process.exitcode)
