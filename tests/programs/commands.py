"""Commands that the program has a shell run, and what it reads then: python commands.py"""
import os
import shutil
import signal
import tempfile
import time

import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
model = torch.nn.Linear(4, 3)
images = torch.randn(12, 4)


def step():
    loss = model(images).pow(2).mean()
    loss.backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    return f"{loss.item():.8f}"


def text_of(path):
    with open(path, encoding="ascii") as file:
        return file.read().split()


def status_of(command):
    return os.waitstatus_to_exitcode(os.system(command))


# made anew, added to, moved: once, and whole before anybody reads it
print("made", status_of("rm -rf out && mkdir out"), status_of("mkdir out 2>/dev/null"))
for number in range(4):
    print(step(), status_of(f"echo step {number} >>out/log.txt; exit {number}"), text_of("out/log.txt"))
print("moved", status_of("mv out/log.txt out/moved.txt"), status_of("mv out/log.txt out/moved.txt 2>/dev/null"), sorted(os.listdir("out")))
print("slow", status_of("(echo begin; sleep 0.3; echo end) >out/slow.txt"), text_of("out/slow.txt"))
print("killed", status_of("kill -9 $$"))

# beside a file that is open, and a checkpoint
with open("out/open.txt", "w", encoding="ascii") as file:
    file.write("first\n")
    file.flush()
    print("seen", status_of("cp out/open.txt out/seen.txt"), text_of("out/seen.txt"))
torch.save(model.state_dict(), "out/last.pt")
print("best", status_of("cp out/last.pt out/best.pt"), torch.load("out/best.pt")["weight"].sum().item() == model.weight.sum().item())
os.system("rm out/last.pt")

# the name of a run, by the clock of one rank
os.system("date +%s%N >out/now.txt")
name = "run" + text_of("out/now.txt")[0]
os.mkdir(name)
time.sleep(0.01)
os.system("rm -r run* out/now.txt out/*.pt")
print("runs", sorted(os.listdir(".")))

# each rank's own: scratch files, named in the command, in a variable, or lain in; the process, its number and descriptors
handle, own = tempfile.mkstemp()
os.close(handle)
print("scratch", status_of(f"echo own >{own}"), text_of(own))
os.remove(own)
folder = os.environ["FOLDER_OF_THIS_RUN"] = tempfile.mkdtemp()
print("variable", status_of('echo variable >"$FOLDER_OF_THIS_RUN/a"'), text_of(folder + "/a"))
del os.environ["FOLDER_OF_THIS_RUN"]
home = os.getcwd()
os.chdir(folder)
print("lain in", status_of("echo in >b"), text_of("b"))
os.chdir(home)
shutil.rmtree(folder)
print("process", status_of(f"kill -0 {os.getpid()}"), step())
received = []
signal.signal(signal.SIGUSR1, lambda *_: received.append("signal"))
print("signal", status_of("kill -USR1 $PPID"), step(), received)
reading, writing = os.pipe()
os.set_inheritable(writing, True)
print("pipe", status_of(f"echo through >&{writing}"), os.read(reading, 99))
with tempfile.TemporaryFile() as file:
    shown = os.dup(1)
    os.dup2(file.fileno(), 1)
    os.system("echo caught")
    os.dup2(shown, 1)
    file.seek(0)
    print("caught", file.read())
for number in range(2, 20):  # in a container some of these are the ranks' processes
    os.system(f"echo {number} >>numbers.txt")
print("end", step(), text_of("numbers.txt"))
