"""A training step of a multi-layer perceptron: mlp.py WIDTH LAYERS BATCH STEPS [ddp | ddp-silent]. Prints the median of a step in microseconds and the peak
of resident memory in KiB. Plain by itself: accel-run makes ranks of it. With ddp it is what its author would have to write for PyTorch's
DistributedDataParallel over Gloo, half the batch in each of two processes; ddp-silent leaves the all-reduce out."""
import contextlib
import resource
import socket
import statistics
import sys
import time

import torch
import torch.multiprocessing


def build(width, layers):
    torch.manual_seed(1)
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts, torch.nn.Linear(width, 10))


def train(model, width, batch, steps, silent=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data, labels = torch.randn(batch, width), torch.randint(10, (batch,))
    taken = []
    for _ in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        with model.no_sync() if silent else contextlib.nullcontext():
            torch.nn.functional.cross_entropy(model(data), labels).backward()
        optimizer.step()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken) * 1e6


def rank_main(rank, port, width, layers, batch, steps, silent):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(build(width, layers))
    median = train(model, width, batch // 2, steps, silent)
    if rank == 0:
        print(f"{median:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}", flush=True)
    torch.distributed.barrier()


def main():
    width, layers, batch, steps = (int(word) for word in sys.argv[1:5])
    kind = sys.argv[5] if len(sys.argv) > 5 else ""
    if not kind:
        torch.set_num_threads(1)
        median = train(build(width, layers), width, batch, steps)
        print(f"{median:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(rank_main, (port, width, layers, batch, steps, kind == "ddp-silent"), nprocs=2)


if __name__ == "__main__":
    main()
