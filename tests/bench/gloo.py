"""All-reduce of float32 between two processes by PyTorch over Gloo: prints bytes and the best time in microseconds, a line a size."""
import socket
import sys
import time

import torch
import torch.multiprocessing


def rank_main(rank, port, sizes):
    torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    for size in sizes:
        buffer = torch.zeros(size // 4)
        rounds = 200 if size <= 1 << 20 else 20
        best = float("inf")
        for _ in range(rounds):
            torch.distributed.barrier()
            begin = time.perf_counter()
            torch.distributed.all_reduce(buffer)
            best = min(best, time.perf_counter() - begin)
        if rank == 0:
            print(size, f"{best * 1e6:.1f}", flush=True)
    torch.distributed.destroy_process_group()  # else a process may end by abort (seen with 2.13.0)


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        chosen = probe.getsockname()[1]
    torch.multiprocessing.spawn(rank_main, (chosen, [int(word) for word in sys.argv[1:]]), nprocs=2)
