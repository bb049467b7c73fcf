#!/usr/bin/env bats
# What the ranks read, and have of the terminal and of descriptors that accel-run was given. With programs that are not trainers.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    launcher_setup_file
}

setup() {
    launcher_setup
}

# ---- descriptors beyond standard input and output

@test "every rank reads all of a pipe that an argument names, and of an open file, from where it stands; what is written to another comes once" {
    seq 100 >numbers
    read_all='cksum "$1"; read -r line <&4; read -r line <&4; echo "$line"; echo written >&5; echo piped >"$2"'
    exec 4<numbers
    read -r _ <&4
    run -0 --separate-stderr "$ACCEL_RUN" -n 3 --log-dir logs sh -c "$read_all" sh <(seq 300000) >(cat >piped; touch piped.whole) 5>written
    exec 4<&-
    retry 80 0.05 test -e piped.whole
    [ "$(cat written piped)" = "$(printf 'written\npiped')" ]
    for rank in 0 1 2; do [ "$(cat "logs/rank-$rank.out")" = "$(seq 300000 | cksum) $(printf '/dev/fd/63\n3')" ]; done
}

@test "an open file that is written can be cut and read again by every rank, and is written once; who reads an open pipe sees its end when the program closes it" {
    cat >program.py <<'END'
import os
import sys

sink = int(sys.argv[1].rsplit("/", 1)[1])
with os.fdopen(4, "a") as log:
    log.write("added\n")
    log.flush()
    os.fsync(4)
    size = os.fstat(4).st_size
with os.fdopen(5, "r+") as state:
    before = state.read()
    state.seek(0)
    state.write("after\n")
    state.truncate()
    state.seek(0)
    print(size, before.strip(), state.read().strip(), flush=True)
os.write(sink, b"piped")
os.close(sink)
while not os.path.exists("whole"):
    pass
END
    echo begins >log
    echo before, and longer >state
    "$ACCEL_RUN" -n 3 --log-dir logs /usr/bin/python3 program.py >(cat >piped; touch whole) 4>>log 5<>state & # a shell that waits itself holds the pipe
    wait $!
    [ "$(cat log piped state)" = "$(printf 'begins\nadded\npipedafter')" ]
    for rank in 0 1 2; do [ "$(cat "logs/rank-$rank.out")" = '13 before, and longer after' ]; done
}

@test "a pipe that no argument names is left as it is: its bytes may be somebody else's" {
    exec 4< <(seq 3)
    run -0 "$ACCEL_RUN" -n 2 true
    [ "$(cat <&4)" = "$(seq 3)" ]
    exec 4<&-
}

@test "standard input under a second number is one pipe: each rank reads all of it there" {
    seq 20000 | (exec 3<&0 && "$ACCEL_RUN" -n 3 --log-dir logs sh -c 'cksum <&3')
    for rank in 0 1 2; do [ "$(cat "logs/rank-$rank.out")" = "$(seq 20000 | cksum)" ]; done
}

@test "a descriptor whose number is above the limit of open files is written by rank 0 alone, too" {
    exec 63>high
    (ulimit -n 60 && "$ACCEL_RUN" -n 2 --log-dir logs bash -c 'echo written >&63 || true')
    exec 63>&-
    [ "$(cat high)" = written ]
    contains "$(cat logs/rank-1.err)" "63: Bad file descriptor"
}

# ---- the terminal

@test "in a terminal the program has a terminal of the same size" {
    requires command script
    script -qec "stty rows 33 cols 77; '$ACCEL_RUN' -n 2 sh -c 'test -t 0 && test -t 1 && test -t 2 && stty size'" /dev/null </dev/null >out
    grep -q '^33 77' out
    lacks "$(cat out)" "$(printf '\r\r')"
    script -qec "'$ACCEL_RUN' -n 2 sh -c 'test -t 1 || echo pipe' | cat" /dev/null </dev/null >out
    grep -q '^pipe' out
}

@test "a terminal that nobody reads does not keep the job from being ended" {
    cat >unread.py <<'EOF'
import fcntl, os, pty, struct, subprocess, sys, termios, time
ours, theirs = pty.openpty()
job = subprocess.Popen([*sys.argv[1:], sys.executable, "-c", "while True: print('x' * 3000, flush=True)"],
                       stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
waiting = lambda: struct.unpack("i", fcntl.ioctl(ours, termios.FIONREAD, b"    "))[0]
before = -1
while waiting() > before or not before:  # until it is full
    before = waiting()
    time.sleep(0.5)
job.terminate()
try:
    print(job.wait(20))
finally:
    job.kill()
EOF
    run -0 python3 unread.py "$ACCEL_RUN" -n 2
    [ "$output" = 143 ]
}

@test "what is typed in a terminal that controls nobody reaches all ranks" {
    cat >foreign.py <<'EOF'
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
job = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=subprocess.PIPE, start_new_session=True)
os.write(ours, b"hello\n")
print(job.communicate(timeout=60)[0].decode(), end="")
EOF
    run -0 --separate-stderr python3 foreign.py "$ACCEL_RUN" -n 2 sh -c 'read x; echo got $x | tee got.$ACCEL_RUN_RANK'
    [ "$output" = 'got hello' ]
    grep -qx 'got hello' got.1
}

@test "when the terminal of standard input goes away, what waits for input is told so, as alone" {
    cat >hang_up.py <<'EOF'
import os, pty, subprocess, sys
ours, theirs = pty.openpty()
job = subprocess.Popen(sys.argv[1:], stdin=theirs, stdout=subprocess.PIPE, start_new_session=True)
os.close(theirs)
os.write(ours, b"hello\n")
job.stdout.readline()  # rank 0 has read it
os.close(ours)
open("gone", "w").close()
try:
    print(job.communicate(timeout=60)[0].decode(), end="")
finally:
    job.kill()
EOF
    run -0 --separate-stderr python3 hang_up.py "$ACCEL_RUN" -n 2 sh -c '[ $ACCEL_RUN_RANK = 0 ] || until [ -e gone ]; do sleep 0.01; done
        read x && echo got $x; read y || echo "end of file" | tee end.$ACCEL_RUN_RANK; echo "$x" >got.$ACCEL_RUN_RANK'
    [ "$output" = 'end of file' ]
    [ "$(cat end.1 got.1)" = "$(printf 'end of file\nhello')" ]
}

@test "what is typed in a terminal reaches all ranks" {
    requires command script
    printf 'hello\n' | script -qec "'$ACCEL_RUN' -n 2 sh -c 'read x; echo got \$x >$T/got.\$ACCEL_RUN_RANK'" /dev/null >/dev/null
    grep -qx 'got hello' got.0
    grep -qx 'got hello' got.1
}

@test "a program that asks at /dev/tty, as for a password, is not stopped there: it is answered at its input, or fails" {
    requires command script
    local ask='import getpass; print("got", getpass.getpass("word: "))'
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 2 python3 -W ignore -c "$ask"
    "$REPOSITORY/tests/terminal" expect='/dev/tty' ended=1 -- "$ACCEL_RUN" -n 2 sh -c 'cat </dev/tty || exit 1'
}

@test "who asks for a password later than rank 0, and throws away what was typed before, gets the answer all the same" {
    requires command script
    cat >ask.sh <<'EOF'
[ "$ACCEL_RUN_RANK" = 0 ] || until [ -e answered.0 ]; do sleep 0.01; done
python3 -W ignore -c 'import getpass; print("got", getpass.getpass("word: "))' && touch answered."$ACCEL_RUN_RANK"
EOF
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 3 sh ask.sh
    [ -e answered.1 ]
    [ -e answered.2 ]
}

@test "what is held back from a rank that never throws input away comes to it in the end" {
    requires command script
    cat >ask.sh <<'EOF'
[ "$ACCEL_RUN_RANK" != 0 ] || exec python3 -W ignore -c 'import getpass; print("got", getpass.getpass("word: "))'
read -r answer && echo "$answer" >answer
EOF
    "$REPOSITORY/tests/terminal" expect='word: ' 'send=open sesame\n' expect='got open sesame' ended=0 -- "$ACCEL_RUN" -n 2 sh ask.sh
    grep -qx 'open sesame' answer
}

# ---- input

@test "stdin reaches every rank: a pipe, a file, nothing" {
    seq 100000 >data
    sum=$(md5sum <data)
    cat data | "$ACCEL_RUN" -n 3 sh -c "md5sum >$T/pipe.\$ACCEL_RUN_RANK"
    "$ACCEL_RUN" -n 3 sh -c "md5sum >$T/file.\$ACCEL_RUN_RANK" <data
    "$ACCEL_RUN" -n 3 sh -c "wc -c >$T/none.\$ACCEL_RUN_RANK" </dev/null
    for rank in 0 1 2; do
        [ "$(cat pipe.$rank)" = "$sum" ]
        [ "$(cat file.$rank)" = "$sum" ]
        [ "$(cat none.$rank)" = 0 ]
    done
}

@test "what a loop around accel-run does not get, since the program has not read it, is said; what it has read is not" {
    export ACCEL_RUN_LOG_LEVEL=warn
    printf '1\n2\n3\n' | while read -r _; do "$ACCEL_RUN" -n 2 "$CLAIMER" claim 2>>err; done
    [ "$(grep -c 'AR-INPUT-TAKEN: 4 bytes of standard input went to the program, which did not read them' err)" -eq 1 ]
    printf '1\n2\n3\n' | while read -r _; do "$ACCEL_RUN" -n 2 "$CLAIMER" claim 2>>none </dev/null; done
    printf '1\n2\n3\n' | { read -r _; "$ACCEL_RUN" -n 2 sh -c "\"$CLAIMER\" claim; cat >/dev/null" 2>>none; }
    printf '1\n2\n3\n' | "$ACCEL_RUN" -n 2 "$CLAIMER" claim 2>>none # nobody else reads it
    run -1 grep AR-INPUT none
}

@test "a file is read from where it stands, and left where rank 0 leaves it" {
    printf '1\n2\n3\n' >data
    { read -r _; "$ACCEL_RUN" -n 2 sh -c 'read x; echo $x >got.$ACCEL_RUN_RANK'; read -r rest; echo "rest $rest"; } <data >out
    [ "$(cat got.0 got.1)" = "$(printf '2\n2')" ]
    [ "$(cat out)" = "rest 3" ]
}

@test "a job that was begun in the background reads the terminal when it is brought to the foreground" {
    requires command script
    cat >background.sh <<EOF
set -m
"$ACCEL_RUN" -n 1 sh -c 'touch begun; read x; echo got \$x' &
until [ -e begun ]; do sleep 0.05; done
fg
EOF
    "$REPOSITORY/tests/terminal" expect='accel-run' 'send=hello\n' expect='got hello' ended=0 -- bash background.sh
}
