"""Models that threads make: in tasks of a pool, in threads, by main() while others train; trained where they were made, or later by main()."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

rows = torch.randn(64, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
wanted = torch.sin(rows.sum(1))
words = torch.randint(0, 20, (64,), generator=torch.Generator().manual_seed(2))


def make(index, width):
    own = torch.Generator().manual_seed(index)
    model = torch.nn.Sequential(torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, 1), torch.nn.Flatten(0))
    with torch.no_grad():
        for parameter in model.double().parameters():  # the common generator is drawn from by all threads
            parameter.copy_(torch.randn(parameter.shape, generator=own, dtype=torch.float64) * 0.3)
    return model


def train(model, steps=20):
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = []
    for step in range(steps):
        some = slice(step % 4 * 16, step % 4 * 16 + 13 + step % 3)
        optimizer.zero_grad()
        loss = (model(rows[some]) - wanted[some]).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def make_and_train(index, width):
    model = make(index, width)
    return model, train(model)


def embed(index):
    """Indices of one dimension are a batch when they are as many as the last one."""
    own = torch.Generator().manual_seed(index)
    table = torch.randn(20, 5, generator=own, dtype=torch.float64).requires_grad_()
    found = []
    for step in range(10):
        some = words[step : step + 9 + index]
        loss = (table[some] * torch.nn.functional.embedding(some.flip(0), table)).sum(1).sigmoid().log().mean()
        table.grad = None
        loss.backward()
        with torch.no_grad():
            table -= table.grad
        found.append(loss.item())
    return found


def show(name, numbers):
    print(name, *(f"{value:.8f}" for value in numbers), flush=True)


def end(model):
    show("parameters", [parameter.sum().item() for parameter in model.parameters()])


# before main() has made any; of two sizes, so that a swap is seen
with ThreadPoolExecutor(4) as pool:
    results = list(pool.map(make_and_train, range(6), [16, 16, 24, 16, 24, 16]))
for model, losses in results:
    show("made by a task", losses)
for model, _ in results:  # compared where they were made
    show("and trained on", train(model, 4))
    end(model)

# made by a task, first trained by main()
with ThreadPoolExecutor(3) as pool:
    models = list(pool.map(make, range(10, 15), [16] * 5))
for model in models:
    show("made elsewhere", train(model, 4))
    end(model)

found = {}


def remember(index, *given):
    found[index] = make_and_train(index, 16)[1] if not given else train(*given)


threads = []
for index in range(6):  # while main() makes the next ones
    given = (make(index, 16),) if index % 2 else ()
    threads.append(threading.Thread(target=remember, args=(index, *given)))
    threads[-1].start()
for thread in threads:
    thread.join()
for index in sorted(found):
    show("made by a thread" if index % 2 == 0 else "made by main", found[index])

with ThreadPoolExecutor(3) as pool:
    for losses in pool.map(embed, range(6)):
        show("indices", losses)
