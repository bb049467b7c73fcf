"""Threads of Python, in a pool and by themselves, that share a divided tensor: they look at it at one time, and write rows of it, each its own."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(0)
model = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
data, targets = torch.randn(40, 6), torch.randint(4, (40,))


def short(values):
    return [round(value, 4) for value in values]


def in_threads(work, count):
    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def look(pool, hidden, predicted):
    norms = {}

    def accuracy(which):
        return (predicted[targets == which] == which).float().mean().item()

    def norm(k):
        norms[k] = hidden.view(-1)[k::4].norm().item()

    print(short(pool.map(accuracy, range(4))), list(pool.map(lambda which: int((predicted.numpy() == which).sum()), range(4))))
    print(short(pool.map(lambda i: hidden[i].tolist()[0], range(8))), short(pool.map(lambda k: hidden[10 * k:10 * k + 10].numpy().sum().item(), range(4))))
    in_threads(norm, 4)
    print(short(value for _, value in sorted(norms.items())))


def write(pool, hidden):
    filled, array = torch.zeros_like(hidden), hidden.numpy()

    def fill(k):
        filled[10 * k:10 * k + 10] = hidden[10 * k:10 * k + 10].softmax(1) * k

    def scale(k):
        array[10 * k:10 * k + 10] *= k

    list(pool.map(fill, range(4)))
    print(short([filled.sum().item(), filled[35].sum().item()]))
    list(pool.map(scale, range(4)))
    print(short([hidden.sum().item(), hidden[35].sum().item()]))
    in_threads(lambda k: hidden.index_put_((torch.tensor([k, k + 20]),), torch.tensor(k + 0.5)), 8)
    print(short([hidden[:8].sum().item(), hidden[20:28].sum().item(), hidden.sum().item()]))
    in_threads(lambda k: hidden[10 + k].mul_(k + 1), 6)
    print(short([hidden[10:16].sum().item(), hidden.sum().item()]))


with ThreadPoolExecutor(4) as workers:
    for step in range(6):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data), targets).backward()
        optimizer.step()
        with torch.no_grad():
            outputs = model(data)
        look(workers, outputs, outputs.argmax(1))
        write(workers, outputs)
