#!/usr/bin/env bats
# What `make check-matrix` needs to be right about, on libraries of a few lines: it itself takes too long for every test run.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=60

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
}

# A library whose function and table of functions lead to another function of its own, which a preloaded library defines, too.
two_libraries() {
    cat >library.c <<'END_C'
int chosen(void) { return 1; }
int (*table[1])(void) = {chosen};
int through_call(void) { return chosen() * 100 + table[0]() * 10; }
END_C
    cat >program.c <<'END_C'
#include <stdio.h>
int chosen(void), through_call(void);
int main(void) { printf("%d\n", through_call() + chosen()); }
END_C
    echo 'int chosen(void) { return 2; }' >preload.c
    gcc -shared -fPIC -o liblibrary.so library.c
    gcc -shared -fPIC -o preload.so preload.c
    gcc -o program program.c -L. -llibrary -Wl,-rpath,"$PWD"
}

@test "a library bound to itself calls its own functions, directly and by tables; other libraries still get the preloaded one" {
    gcc -std=gnu11 -Wall -Wextra -Werror -o bind_own "$REPOSITORY/tests/matrix/bind_own.c" -lelf
    two_libraries
    [ "$(./program)" = 111 ]
    [ "$(LD_PRELOAD=./preload.so ./program)" = 222 ]
    run -0 ./bind_own liblibrary.so
    contains "$output" "2 of "
    [ "$(./program)" = 111 ]
    [ "$(LD_PRELOAD=./preload.so ./program)" = 112 ]
    [ "$(LD_BIND_NOW=1 LD_PRELOAD=./preload.so ./program)" = 112 ]
    run -1 ./bind_own preload.c
}

@test "the stubs of a library that is not there have its symbols and their versions, and say that there is no device" {
    mkdir real wheel
    printf '%s\n' 'int cudaGetDeviceCount(int *n) { return 0; }' 'int cudaOther(void) { return 7; }' >cuda.c
    echo 'libcudart.so.12 { global: *; };' >versions
    gcc -shared -fPIC -o real/libcudart.so.12 cuda.c -Wl,-soname,libcudart.so.12 -Wl,--version-script=versions
    echo 'int cudaGetDeviceCount(int *); int cudaOther(void); int both(void) { int n; return cudaGetDeviceCount(&n) * 10 + cudaOther(); }' >user.c
    gcc -shared -fPIC -o wheel/libuser.so user.c real/libcudart.so.12 "-Wl,-rpath,\$ORIGIN"
    "$REPOSITORY/tests/matrix/stubs" wheel
    [ "$(ls wheel)" = "$(printf '%s\n' libcudart.so.12 libuser.so)" ]
    printf '%s\n' '#include <stdio.h>' 'int both(void);' 'int main(void) { printf("%d\n", both()); }' >main.c
    gcc -o main main.c -Lwheel -luser -Wl,-rpath,"$PWD/wheel" -Wl,--allow-shlib-undefined
    [ "$(./main 2>&1)" = 1000 ] # and no warning of a version that is missing
}
