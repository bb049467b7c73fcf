"""What a program keeps of its batches, and writes to, row by row: in an evaluation without a backward, as another type, and after a thread has looked."""
import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.nn import functional

from footprint import resident

MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, 1 << 20)  # what is freed is not kept for later
torch.manual_seed(1)
images = torch.randn(23, 6)
wide, narrow, first = torch.nn.Linear(6, 65536), torch.nn.Linear(65536, 8), torch.nn.Linear(6, 8)
kept = []


def written_through_memory():
    with torch.no_grad():
        row = wide(images)[0].numpy()
        row *= 2
        return row.sum()


def kept_without_history():
    kept.append(narrow(functional.relu(wide(images)))[0].detach())
    with torch.no_grad():
        first(images)[0].tolist()
    return kept[-1].sum().item()


def kept_in_a_loop():
    out = narrow(functional.relu(wide(images)))
    kept.extend(out[i].detach() for i in range(3))
    kept.append(out[4].detach())
    return sum(row.sum().item() for row in kept[-4:])


def of_many_outputs():
    """The same rows of one output after another: each is put together once."""
    outs = [first(images * k) for k in range(1, 9)]
    kept.extend(out[i].detach() for i in range(23) for out in outs)
    with torch.no_grad():
        also = [first(images * k)[0] for k in range(9)]
    return sum(row.sum().item() for row in kept[-8:] + also)


def history_of_expanded():
    hidden = first(images)
    row = hidden.unsqueeze(1).expand(-1, 5, -1)[0]
    others = [first(images * k)[0].sum() for k in range(6)]
    hidden.mul_(2)
    first.zero_grad()
    (row.sum() + 0 * sum(others)).backward()
    return first.weight.grad.norm().item()


def expanded():
    out = narrow(functional.relu(wide(images)))
    kept.append(out.unsqueeze(1).expand(-1, 5, -1)[0].detach().tolist())
    return sum(kept[-1][0])


def as_another_type():
    with torch.no_grad():
        waves = torch.fft.rfft(first(images))
        waves[3].imag.zero_()
        torch.view_as_real(waves[5]).mul_(3)
        row = waves.abs().sum(1)
        bits = first(images)
        bits[2].view(torch.int32).bitwise_and_(~0xFFFF)
        return row.sum().item(), row[3].item(), row[5].item(), bits.sum().item(), bits[2].sum().item()


def looked_at_in_a_thread():
    hidden = first(images).detach()
    row = hidden[3]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hidden.numpy).result()[3] = 7
    return row.sum().item(), hidden.sum().item()


def written_after_a_thread():
    hidden = first(images).detach()
    rows = hidden[2:5].numpy()
    with ThreadPoolExecutor(1) as pool:
        whole = pool.submit(hidden.numpy).result()
    rows[:] = 2
    return first(images * 2).sum().item(), hidden.sum().item(), whole[2:5].sum()


def minus_zero():
    with torch.no_grad():
        hidden = first(images).clamp(min=0)
        hidden[torch.tensor([1, 4])] = -0.0
        return torch.where(hidden == 0, (1 / hidden).sign(), hidden).sum().item()


def repeat(make):
    for _ in range(4):
        make()
    before = resident()
    for _ in range(40):
        numbers = make()
    print(make.__name__, numbers, "memory kept" if resident() - before > 40e6 else "memory freed")


def all_of_them():
    for make in written_through_memory, kept_without_history, kept_in_a_loop, of_many_outputs, expanded:
        repeat(make)
    for make in history_of_expanded, as_another_type, looked_at_in_a_thread, written_after_a_thread, minus_zero:
        print(make.__name__, make())


all_of_them()
is_over = threading.Event()
beside = threading.Thread(target=is_over.wait)
beside.start()
all_of_them()
is_over.set()
beside.join()
