#!/usr/bin/env bats
# Files of threads and pools, and what these do at one time: once, and every rank sees it as one process would.
# Runs beside other files.
bats_require_minimum_version 1.5.0
load helpers
load files

@test "threads that add to one file at once, again and again" {
    cat - >"$BATS_TEST_TMPDIR/program.py" <<'PYTHON'
import concurrent.futures, os, sys
if sys.argv[1:]:
    import torch
    torch.nn.Linear(4, 2)
def add(number):
    for _ in range(5):
        with open("all", "a") as file:
            file.write("x")
    return number
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    print(sum(pool.map(add, range(20))))
print(os.path.getsize("all"))
PYTHON
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    rm -rf "$PLAIN" "$RANKS" "$LOG"
    mkdir "$PLAIN" "$RANKS"
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py" torch
}

@test "files of threads beside the training: whole ones are whole, additions are made once, so is a folder named with the time, and numbers are no processes" {
    program '
import shutil, time
def beside():
    folder = "%.6f" % time.time()  # as tensorboard calls that of add_hparams: another one on each rank, the same for all
    os.makedirs(folder)
    with open(folder + "/part", "w") as file:
        file.write("part")
    print(open(folder + "/part").read())
    shutil.rmtree(folder)
    for i in range(20):
        with open("whole", "w") as file:
            file.write("text\n" * 10000)
        with open("added", "a") as file:
            file.write("line\n")
        print(len(open("whole").read()))
thread = threading.Thread(target=beside)
thread.start()
thread.join()

import glob  # names of files that are numbers of processes, too: another thread comes first on each rank
rank = int(os.environ.get("ACCEL_RUN_RANK", 0))
lists = glob.glob("/proc/%d/task/*/children" % os.getppid()) if "ACCEL_RUN_RANK" in os.environ else []
processes = sorted(int(process) for name in lists for process in open(name).read().split())[-3:] or range(3) # before them: who looks after the job
def feature(number):
    time.sleep(0.2 * ((number - rank) % 3))
    with open("feature_%d" % processes[number], "w") as file:
        file.write(str(number))
threads = [threading.Thread(target=feature, args=(number,)) for number in (1, 2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
for number in 1, 2:
    print(number, open("feature_%d" % processes[number]).read())
    os.remove("feature_%d" % processes[number])'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    lacks "$(cat "$RANKS.err")" AR-FILE-BESIDE
}

@test "files that main opens and a thread, another one on each rank, closes: children start together all the same" {
    program '
import concurrent.futures, gc, time
rank = int(os.environ.get("ACCEL_RUN_RANK", 0))
gc.disable()
pool = concurrent.futures.ThreadPoolExecutor(2)
for number in range(3):
    file = open(f"part{number}.csv", "w")
    done = pool.submit(lambda file: (time.sleep(0.2 * (rank == 0)), file.writelines(["1,2\n"] * 10), None)[2], file)
    time.sleep(0.4 * (rank != 0))
    del file  # here, or where the task ends
    done.result()
    del done
time.sleep(0.5)
print(os.popen("cat part*.csv | wc -l").read())
loader = torch.utils.data.DataLoader(list(range(8)), batch_size=4, num_workers=2)
print([batch.sum().item() for batch in loader])
train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a thread that opens its file anew for each event, under a name with the process number, waits for nobody; nor one that moves a file out of /tmp" {
    program '
import shutil, tempfile, time
def write():
    for event in range(500):
        with open("events.%d" % os.getpid(), "ab") as file:
            file.write(b"event\n")
    print(os.path.getsize("events.%d" % os.getpid()))
def move():
    with tempfile.NamedTemporaryFile("w", delete=False) as file:
        file.write("saved")
    shutil.move(file.name, "last.txt")
    print(open("last.txt").read())
begin = time.monotonic()
for beside in write, move:
    thread = threading.Thread(target=beside)
    thread.start()
    thread.join()
print("in time", time.monotonic() - begin < 20)
os.rename("events.%d" % os.getpid(), "events")
train()'
    both 3 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    lacks "$(cat "$RANKS.err")" AR-FILE-BESIDE
}

@test "sixty threads that write at once, and close their files long after rank 0's threads have: nobody waits for an end that has been" {
    program '
import time
def write(number):
    with open(f"part{number}.txt", "w") as file:
        file.write(str(number))
        if os.environ["ACCEL_RUN_RANK"] == "1":
            time.sleep(2)
threads = [threading.Thread(target=write, args=(number,)) for number in range(60)]
begin = time.monotonic()
for thread in threads:
    thread.start()
    time.sleep(0.01)
for thread in threads:
    thread.join()
print("in time", time.monotonic() - begin < 15)
train()
print(sum(int(open(f"part{number}.txt").read()) for number in range(60)))'
    (cd "$RANKS" && "$ACCEL_RUN" -n 2 --collective-timeout 30 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py")
    [ "$(cat "$LOG/rank-1.out")" = "$(printf 'in time True\n1770')" ]
}

@test "pools and threads: numbers of each task, models trained side by side, checkpoints written, renamed, read and pruned meanwhile" {
    both_builds threads.py
}

@test "what threads are given that have nothing else to be told apart by: arguments by name, callbacks, objects" {
    both_builds given_away.py
}

@test "threads, tasks and items of queues that are given times, process numbers, addresses, the host's name and names drawn in temporary folders" {
    one_build moments_of_threads.py
}

@test "models that threads make: in tasks, in threads, by main() while others train, trained on by main()" {
    both_builds models_of_threads.py
}

@test "threads that write rows of one tensor each, whatever its type" {
    both_builds rare_types_of_threads.py
}

@test "results that are used as workers end, of pools, executors and loaders, come in one order on all ranks" {
    both_builds arrivals.py
}

@test "a file that a thread opens on one rank alone is gone on without, with a warning; rank 0 goes first, however many others do not come" {
    program '
import time
rank = int(os.environ["ACCEL_RUN_RANK"])
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()
def beside():
    open(f"of{rank}", "w").write("x")
    open("after", "w").write("y")
in_thread(beside)
train()

with open("of10", "w") as file:  # is called like those: nobody waits for long
    file.write("z")
def rename():
    os.rename("of10", "renamed")
    print("renamed:", open("renamed").read())
if rank < 2:
    in_thread(rename)
elif rank == 3:  # a slow one
    time.sleep(1)
train()'
    cd "$RANKS" || return 1
    run "$ACCEL_RUN" -n 4 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 0 ]
    contains "$output" AR-FILE-BESIDE
    [ "$(cat of0 after)" = xy ]
    [ ! -e of1 ]
    [ "$(cat "$LOG/rank-0.out")" = "renamed: z" ]
    [ "$(cat "$LOG/rank-1.out")" = "renamed: z" ]
}

@test "where another rank never comes, and trains on, rank 0 goes on first at the deadline, too: the others find what it has done" {
    program '
import time
rank = int(os.environ["ACCEL_RUN_RANK"])
open("part", "w").close()
def rename():
    if rank == 0:
        time.sleep(0.7)  # comes when the others wait
    if rank != 2:
        os.rename("part", "whole")
        print("renamed:", os.path.exists("whole"))
thread = threading.Thread(target=rename)
thread.start()
for _ in range(45):
    train()
    time.sleep(0.1)
thread.join()'
    cd "$RANKS" || return 1
    run "$ACCEL_RUN" -n 3 --collective-timeout 2 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 0 ]
    contains "$output" AR-FILE-BESIDE
    [ "$(cat "$LOG/rank-0.out")" = "renamed: True" ]
    [ "$(cat "$LOG/rank-1.out")" = "renamed: True" ]
}

@test "a thread that keeps a lock while it waits for another rank holds its own rank up: that one, who waits for it in a collective, is gone on without" {
    program '
rank = int(os.environ["ACCEL_RUN_RANK"])
open("part", "w").close()
lock, is_kept, has_gone_by = threading.Lock(), threading.Event(), threading.Event()
def rename():
    if rank == 0:
        has_gone_by.wait()
    with lock:
        is_kept.set()
        os.rename("part", "whole")
thread = threading.Thread(target=rename)
if rank < 2:
    thread.start()
if rank == 1:
    is_kept.wait()
with lock:
    has_gone_by.set()
for _ in range(3):
    train()
if rank < 2:
    thread.join()
print("renamed:", os.path.exists("whole"))'
    cd "$RANKS" || return 1
    run "$ACCEL_RUN" -n 3 --collective-timeout 25 --log-dir "$LOG" /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 0 ]
    contains "$output" AR-FILE-BESIDE
    [ "$(cat "$LOG/rank-1.out")" = "renamed: True" ]
}

@test "a thread that has gone on alone leaves the others their patience, and gets its own back; what comes late, or never, is not taken for the next time" {
    program '
import time
rank = int(os.environ.get("ACCEL_RUN_RANK", 0))
def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    return thread
def write(name, text):
    with open(name, "w") as file:
        file.write(text)
def part():
    open(f"of_{rank}", "w").close()  # under another name on each rank
def save_model():
    torch.save(model.state_dict(), "last.pt")
held = open("held.txt", "w")
def close_held():
    held.close()
parted = [in_thread(part)] + [in_thread(function) for one in range(rank) for function in (save_model, close_held)]  # of these rank 0 knows nothing
[thread.join() for thread in parted]
train()
in_thread(save_model).join()  # both, and nothing of it has been before
train()

def late(whose):  # as on a core that others use, too
    time.sleep(rank == whose)
def save():
    late(0)
    for number in range(3):
        write("ck.tmp", str(number))
        os.replace("ck.tmp", f"ck{number}.txt")
        print(open(f"ck{number}.txt").read())
        late(0)
saver = in_thread(save)
if rank:  # the other one waits for it, by its training
    saver.join()
train()
saver.join()
train()

def twice(name, whose, first, second):  # called like those of part(): who is late is gone on without
    late(whose)
    write(name, "first")
    first.set()
    second.wait()
    late(whose)
    print(open(name).read())
    write(name, "second")
    print(open(name).read())
for name, whose in ("of_8", 0), ("of_9", 1):
    first, second = threading.Event(), threading.Event()
    thread = in_thread(lambda: twice(name, whose, first, second))
    if rank != whose:
        first.wait()
    train()
    first.wait()
    train()
    second.set()
    thread.join()
    train()

for number in range(16):  # in time again, and so who is late is waited for again
    in_thread(lambda: write("of_7", "in time")).join()
def move():
    late(0)
    os.rename("of_7", "moved")
    print(open("moved").read())
closed = open("closed.txt", "w")
def close():  # not called like the one that was waited for in vain
    late(0)
    closed.write("whole")
    closed.close()
    print(open("closed.txt").read())
for function in move, close:
    thread = in_thread(function)
    if rank:
        thread.join()
    train()
    thread.join()
    train()'
    both 2 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
}

@test "a thread whose like has ended on another rank is waited for once, to the deadline, which is said, not once for each of its files" {
    program '
import string, time
rank = int(os.environ["ACCEL_RUN_RANK"])
def save():
    if rank:  # as by an error of its own
        return
    for letter in string.ascii_lowercase:
        with open("new", "w") as file:
            file.write(letter)
        os.rename("new", "file_" + letter)
    open("done", "w").close()
thread = threading.Thread(target=save)
thread.start()
while rank and not os.path.exists("done"):  # it waits for nobody, as far as anybody sees
    time.sleep(0.05)
thread.join()
train()'
    cd "$RANKS" || return 1
    run "$ACCEL_RUN" -n 2 --collective-timeout 10 /usr/bin/python3 "$BATS_TEST_TMPDIR/program.py"
    [ "$status" -eq 0 ]
    contains "$output" "AR-FILE-BESIDE: rank 0 has waited 10 s for rank 1 to change 'new'"
    [ "$(cat file_*)" = abcdefghijklmnopqrstuvwxyz ]
}
