"""A script made for torch.distributed, run as one process, with a server of its numbers and one of datagrams. Arguments: two free ports."""
import os
import socket
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch
import torch.distributed as dist

os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=sys.argv[1])
dist.init_process_group("gloo", rank=0, world_size=1)
torch.manual_seed(1)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(5, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
current = [0.0]


class Numbers(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"loss %.4f" % current[0])

    def log_message(self, *values):
        pass


server = HTTPServer(("127.0.0.1", int(sys.argv[2])), Numbers)
threading.Thread(target=server.serve_forever, daemon=True).start()
counts = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
counts.bind(("127.0.0.1", int(sys.argv[2])))
counts.settimeout(20)
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
data = torch.utils.data.TensorDataset(torch.randn(50, 5), torch.randn(50, 3))
sampler = torch.utils.data.distributed.DistributedSampler(data, num_replicas=dist.get_world_size(), rank=dist.get_rank())
for epoch in range(3):
    sampler.set_epoch(epoch)
    for rows, targets in torch.utils.data.DataLoader(data, batch_size=16, sampler=sampler):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        loss.backward()
        optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    dist.barrier()
    current[0] = loss.item()
    told = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/").read().decode()
    sender.sendto(b"counted %d" % epoch, counts.getsockname())
    sender.sendmsg([b"and %d" % epoch], [], 0, counts.getsockname())
    heard = [counts.recvfrom(99) for _ in range(2)]
    counts.sendto(b"well", heard[0][1])
    answer, by = sender.recvfrom(99)
    print(heard[0][0].decode(), heard[1][0].decode(), answer.decode(), "by it" if by == counts.getsockname() else "by another")
    print(f"epoch {epoch} loss {loss.item():.4f} total {total.item():.4f} told {told} port {server.server_port == int(sys.argv[2])}")
sender.setblocking(False)
counts.setblocking(False)
for one in counts, sender:
    try:
        print("more", one.recv(99))
    except BlockingIOError:
        print("nothing more")
server.shutdown()
dist.destroy_process_group()
