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
        loss = torch.nn.functional.mse_loss(model(rows), targets)
        loss.backward()
        with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad = None
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


def first_free(port):
    while True:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", port))
            one.listen()
            return one, port
        except OSError:
            port += 1


def answer(listening, word):
    with listening.accept()[0] as connection:
        connection.sendall(word)


def said_at(host, port):
    with socket.create_connection((host, port), 20) as connection:
        return connection.recv(99).decode()


one, its = first_free(int(sys.argv[2]))  # the server has this one
two, others = first_free(its)
print("another", its != int(sys.argv[2]), others != its)
for listening, word in (one, b"one"), (two, b"two"):
    threading.Thread(target=answer, args=(listening, word), daemon=True).start()
print("said", said_at("127.0.0.1", its), said_at("127.0.0.1", others))
if socket.has_dualstack_ipv6():  # a socket for each family, as asyncio and tornado have
    four, port = first_free(others)
    six = socket.socket(socket.AF_INET6)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    six.bind(("::1", port))
    six.listen()
    for listening, word in (four, b"four"), (six, b"six"):
        threading.Thread(target=answer, args=(listening, word), daemon=True).start()
    print("said", said_at("127.0.0.1", port), said_at("::1", port))
server.shutdown()
dist.destroy_process_group()
