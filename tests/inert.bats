#!/usr/bin/env bats
# The shim in processes that are not ranks, and accel-run around programs that do not train: as if we were not there.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=120

setup_file() {
    unset RANK WORLD_SIZE OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS
}

setup() {
    SHIM=${ACCEL_RUN_SHIM:-$BUILD/libaccelshim.so}
    [ -e "$SHIM" ]
    cd "$BATS_TEST_TMPDIR" || return 1
}

# record NAME command...: its output, errors and status as files
record() {
    local name=$1 status=0
    shift
    "$@" >"$name.out" 2>"$name.err" 3>&- 4>&- || status=$?
    echo "$status" >"$name.status"
}

same_as_plain() {
    local part
    for part in status out err; do
        diff "plain.$part" "$1.$part" >&2
    done
}

# inert command...: the same output, errors and status plain, with the shim preloaded, and as the only rank of accel-run
inert() {
    record plain "$@"
    record preload env LD_PRELOAD="$SHIM" "$@"
    same_as_plain preload
    record ranks "$ACCEL_RUN" "$@"
    same_as_plain ranks
}

@test "ls" { inert ls -l /usr /nowhere; }
@test "git" { inert git --version; }
@test "gcc compiles and its program runs" {
    echo 'int main(void) { return 7; }' >seven.c
    inert gcc --version
    LD_PRELOAD=$SHIM gcc -o seven seven.c
    inert ./seven
}
@test "a handler on an alternate stack of 8 KiB, and a thread with the least stack there is, do with files what they like" {
    cat >small.c <<'END'
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "small_stack.h"
static void names(void) {
    mkdir("thing", 0700);
    rename("thing", "folder");
    rmdir("folder");
    symlink("nowhere", "thing");
    unlink("thing");
    link("file", "thing");
    chmod("thing", 0600);
    utimensat(AT_FDCWD, "thing", NULL, 0);
    setxattr("thing", "user.small", "1", 1, 0);
    truncate("thing", 3);
    remove("thing");
    mkfifo("thing", 0600);
    unlinkat(AT_FDCWD, "thing", 0);
}
static void work(void) {
    char text[8];
    struct stat status;
    struct statfs disk;
    struct flock lock = {.l_type = F_WRLCK};
    int file = open("file", O_RDWR | O_CREAT, 0600);
    if (write(file, "small", 5) != 5 || flock(file, LOCK_EX) || fcntl(file, F_SETLK, &lock) || close(file))
        printf("no file\n");
    DIR *folder = opendir("/proc/self/task");
    if (!folder || !readdir(folder) || (rewinddir(folder), closedir(folder)))
        printf("no folder\n");
    if (stat("file", &status) || lstat("file", &status) || access("file", R_OK) || statfs(".", &disk) || chdir(".") || status.st_size != 5 ||
        readlink("/proc/self/exe", text, sizeof text) < 1)
        printf("nothing seen\n");
    FILE *stream = fopen("file", "r");
    if (!stream || fgetc(stream) != 's' || fclose(stream))
        printf("no stream\n");
    names();
}
int main(void) { on_small_stacks(work); }
END
    gcc -O1 -pthread -I "$REPOSITORY/tests/programs" -o small small.c
    inert ./small
    run -0 "$ACCEL_RUN" --log-level error -n 2 bash -c 'mkdir "$ACCEL_RUN_RANK" && cd "$ACCEL_RUN_RANK" && ../small'
    [ -z "$output" ]
}

@test "bash, its pipes, its subshells and its exit status" {
    inert bash -c 'for i in 1 2 3; do (echo "$i" | cat); done; echo to stderr >&2; exit 3'
}
@test "Python without torch, with a subprocess and a random generator" {
    inert /usr/bin/python3 -c '
import hashlib, random, subprocess, sys, threading
random.seed(1)
thread = threading.Thread(target=lambda: print(random.random()))
thread.start(); thread.join()
print(subprocess.run(["echo", "from a child"], capture_output=True).stdout, hashlib.sha256(b"x").hexdigest())
sys.exit(4)'
}
@test "a C++ program that throws, seeds from std::random_device and reads the clock" {
    cat >throwing.cpp <<'END'
#include <ctime>
#include <iostream>
#include <random>
#include <stdexcept>
int main() {
    std::random_device device;
    std::srand(static_cast<unsigned>(std::time(nullptr)));
    try {
        throw std::runtime_error("caught");
    } catch (const std::exception &error) {
        std::cout << error.what() << (device() == device() && device() == device()) << std::endl;
    }
}
END
    g++ -o throwing throwing.cpp
    inert ./throwing
}
@test "a static binary under the preload" {
    echo 'int main(void) { return 5; }' >static.c
    gcc -static -o static static.c
    record plain ./static
    record preload env LD_PRELOAD="$SHIM" ./static
    same_as_plain preload
}
@test "a libtorch program under the preload but outside accel-run trains as without it" {
    requires file "$BUILD/programs/debian-O2/throws"
    export OMP_NUM_THREADS=1
    record plain "$BUILD/programs/debian-O2/throws"
    record preload env LD_PRELOAD="$SHIM" "$BUILD/programs/debian-O2/throws"
    same_as_plain preload
}
@test "a program linked with libtorch that ends before it uses it (help, a wrong argument) ends as without us, on each build" {
    echo 'int main(int count, char **arguments) { return count > 1 ? arguments[1][0] - 48 : 0; }' >usage.c
    for build in $(builds); do
        mapfile -t libraries < <(ldd "$BUILD/programs/$build/index_loop" | awk '$1 ~ /^lib(torch_cpu|c10)\./ { print $3 }')
        [ "${#libraries[@]}" -eq 2 ]
        gcc -o usage usage.c -Wl,--no-as-needed "${libraries[@]}" -Wl,-rpath,"${libraries[0]%/*}" -Wl,--allow-shlib-undefined
        inert ./usage 3
        ACCEL_RUN_LOG_LEVEL=error record ranks "$ACCEL_RUN" -n 2 ./usage
        record plain ./usage
        same_as_plain ranks
    done
}
@test "the shim needs libc only" {
    run -0 readelf -d "$SHIM"
    local needed
    needed=$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$output" | grep -vE '^(libc\.so\.6|ld-linux-x86-64\.so\.2)$' || true)
    [ -z "$needed" ] || { echo "also needs $needed" >&2 && return 1; }
}
