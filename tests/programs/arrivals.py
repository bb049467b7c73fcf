"""Work that is used in the order in which workers end: another one in each run, so only its sums are printed; the ranks go the same way."""
import random
import time
import weakref
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from multiprocessing import Pool

import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(4, 3)


def slowly(index):
    time.sleep(random.SystemRandom().random() * 0.05)
    return index


class Result:
    pass


def rows_of(index):
    return torch.sin(torch.arange(48.0).view(12, 4) * (index + 1))


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, index):
        return rows_of(slowly(index))[index % 12]


def train(name, indices):
    seen = []
    for index in indices:
        rows = rows_of(index) if isinstance(index, int) else index
        model(rows).pow(2).mean().backward()
        with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
            for parameter in model.parameters():
                parameter -= 0.05 * parameter.grad
                parameter.grad = None
        seen.append(rows.sum().item())
    print(name, len(seen), f"{sum(seen):.8f}", flush=True)


with Pool(3) as pool:
    train("pool", pool.imap_unordered(slowly, range(10)))
for executor in ProcessPoolExecutor(3), ThreadPoolExecutor(3):
    with executor:
        train(type(executor).__name__, (done.result() for done in as_completed({executor.submit(slowly, index) for index in range(10)})))
        if isinstance(executor, ThreadPoolExecutor):
            seen = [weakref.ref(done.result()) for done in as_completed([executor.submit(Result) for _ in range(4)])]
            print("results that are kept behind the loop", sum(ref() is not None for ref in seen))
        limited = as_completed([executor.submit(slowly, 1)], timeout=60)
        print([done.result() for done in limited])
newer = {"in_order": False} if "in_order" in torch.utils.data.DataLoader.__init__.__code__.co_varnames else {}
train("loader", torch.utils.data.DataLoader(Data(), batch_size=6, num_workers=2, **newer))
