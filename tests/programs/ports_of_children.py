"""Servers on fixed ports: one that listens before torch is imported, and those of children, started by exec and by fork. Arguments: three free ports."""
import multiprocessing
import os
import socket
import subprocess
import sys
import time

FIRST, SECOND = int(sys.argv[1]), int(sys.argv[2])
early = socket.create_server(("127.0.0.1", FIRST))

import torch  # noqa: E402

SERVER = """
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens on its own" if server.getsockname()[1] == int(sys.argv[1]) else "listens elsewhere", flush=True)
caller, _ = server.accept()
caller.sendall(sys.argv[2].encode())
"""


def serve(ready, name):
    server = socket.create_server(("127.0.0.1", SECOND))
    ready.set()
    caller, _ = server.accept()
    caller.sendall(name.encode())


def ask(port):
    with socket.create_connection(("127.0.0.1", port)) as asked:
        heard = asked.recv(99).decode()
    return "its own" if heard == name else "another's"


torch.manual_seed(0)
model, name = torch.nn.Linear(4, 2), str(os.getpid())  # of this rank, its children included
print("%.5f" % model(torch.randn(6, 4)).pow(2).mean().item())
caller = socket.create_connection(("127.0.0.1", FIRST))
early.accept()[0].sendall(name.encode())
print("early:", "its own" if caller.recv(99).decode() == name else "another's")
child = subprocess.Popen([sys.executable, "-c", SERVER, str(SECOND), name], stdout=subprocess.PIPE, text=True)
print("by exec:", child.stdout.readline().strip(), ask(SECOND), child.wait())
ready = multiprocessing.get_context("fork").Event()
child = multiprocessing.get_context("fork").Process(target=serve, args=(ready, name))
child.start()
ready.wait()
asker = os.fork()
if not asker:
    os._exit(ask(SECOND) != "its own")
print("by fork, asked by another child:", os.waitpid(asker, 0)[1])
child.join()

# A server that is asked until it answers: on another rank than 0 it comes up later
THIRD = int(sys.argv[3])
late = "import time; time.sleep(0.5 * int(sys.argv[3]))\n" + SERVER
child = subprocess.Popen([sys.executable, "-c", "import sys\n" + late, str(THIRD), name, os.environ.get("ACCEL_RUN_RANK", "0")], stdout=subprocess.DEVNULL)
while True:
    try:
        print("asked until it answers:", ask(THIRD), child.wait())
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
