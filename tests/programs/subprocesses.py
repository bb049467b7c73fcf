"""Commands that the program runs and waits for by subprocess, and what it gets: python subprocesses.py"""
import atexit
import os
import subprocess
import sys
import tempfile
from subprocess import check_output as output_of

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


def raised_by(function, *values, **named):
    try:
        return function(*values, **named)
    except (subprocess.SubprocessError, OSError) as error:
        return type(error).__name__, getattr(error, "returncode", None), getattr(error, "errno", None), getattr(error, "output", None)


with open("a.txt", "w", encoding="ascii") as file:
    file.write("hello\n")
for copy in range(8):  # a new file each: two cp's at once would not both make it
    subprocess.run(["cp", "a.txt", f"copy{copy}.txt"], check=True)
    subprocess.check_call(f"echo {copy} >>log.txt", shell=True)
print(step(), sorted(os.listdir(".")), open("log.txt", encoding="ascii").read().split())
print(subprocess.run(["mv", "a.txt", "b.txt"]).returncode, raised_by(subprocess.run, ["mv", "a.txt", "b.txt"], stderr=subprocess.DEVNULL, check=True))

# outputs: once drawn, by the clock, by the process
drawn = subprocess.run(["sh", "-c", "echo $$ $(date +%N)"], capture_output=True, text=True, check=True)
number = int(output_of("date +%N | sed s/^0*//", shell=True)) % 7
os.mkdir("run" + drawn.stdout.split()[0])
subprocess.call("rm -r run*", shell=True)
print(type(drawn).__name__, drawn.args, drawn.stderr, sorted(os.listdir("."))[-1])
torch.manual_seed(number)  # were it another on each rank they would part
model(images + torch.randn(12, 4)).pow(2).mean().backward()
model.zero_grad()
torch.manual_seed(1)
print(subprocess.getoutput("echo so; exit 3"), subprocess.getstatusoutput("echo so; exit 3"))
print(subprocess.run(["cat"], input=b"given", stdout=subprocess.PIPE, check=False).stdout, raised_by(output_of, ["cat", "none"], stderr=subprocess.STDOUT))
print(raised_by(subprocess.run, ["no-such-command"]), raised_by(subprocess.run, ["sleep", "9"], timeout=0.05))
with open("open.txt", "w", encoding="ascii") as file:  # what is written so far is there for the command
    file.write("first\n")
    file.flush()
    print(output_of(["cat", "open.txt"]), subprocess.run("echo second >&2; cat open.txt >seen.txt", shell=True, check=True, stderr=subprocess.DEVNULL).returncode)

subprocess.run("echo $OTHER >>environment.txt", shell=True, env=dict(os.environ, OTHER="other"), check=True)
print(subprocess.check_output(map(str, ["echo", 1])), open("environment.txt", encoding="ascii").read())
atexit.register(subprocess.run, "echo at the end >>end.txt", shell=True)


class Bad(Exception):
    """Cannot be pickled: its arguments are others than it is made of."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Noisy(subprocess.Popen):
    """Writes a file, and raises what cannot be pickled."""

    def __init__(self, *values, **named):
        with open("noisy.txt", "a", encoding="ascii") as noisy:
            noisy.write("made\n")
        super().__init__(*values, **named)
        if "bad" in values[0]:
            self.wait()
            raise Bad("this", "that")


plain, subprocess.Popen = subprocess.Popen, Noisy
subprocess.run(["true"], check=True)
try:
    subprocess.run(["echo", "bad"], stdout=subprocess.DEVNULL, check=True)
except (Bad, RuntimeError) as error:
    print("bad", str(error)[-13:])
subprocess.Popen = plain
print(open("noisy.txt", encoding="ascii").read().split(), step())

# each rank's own: scratch files; a file that it has open; descriptors; what a library of its own does
with tempfile.NamedTemporaryFile() as own, tempfile.TemporaryDirectory() as folder:
    subprocess.run(["cp", "b.txt", own.name], check=True)
    subprocess.run("echo in >c", shell=True, cwd=folder, check=True)
    subprocess.run('echo "named" >"$NAMED/d"', shell=True, env={"NAMED": folder}, check=True)
    print(own.read(), sorted(os.listdir(folder)))
    subprocess.run(["sh"], input=f"echo by input >{own.name}", text=True, check=True)
    own.seek(0)
    print(own.read(), subprocess.run(["cat"], input=str(os.getpid()).encode(), stdout=subprocess.PIPE, check=True).stdout == b"%d" % os.getpid())
with open("into.txt", "w", encoding="ascii") as file:
    subprocess.run(["echo", "into"], stdout=file, check=True)
print(open("into.txt", encoding="ascii").read())
process = subprocess.Popen([sys.executable, "-c", "print(input() + input())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(process.communicate("to\nand fro\n"), subprocess.run(["kill", "-0", str(os.getpid())], check=True).returncode, step())
