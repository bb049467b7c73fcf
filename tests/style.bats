#!/usr/bin/env bats
# The promises of docs/architecture.md that a machine can check: what the library brings into other processes, who may call whom, and how files look.
# Runs beside other files.

bats_require_minimum_version 1.5.0
load helpers

export BATS_TEST_TIMEOUT=600

setup() {
    SHIM=$BUILD/libaccelshim.so
    cd "$REPOSITORY" || return 1
}

# The repository's own files; in a copy without git, all that is not built.
files() {
    if git rev-parse --git-dir >/dev/null 2>&1; then # not in another user's checkout
        git ls-files --cached --others --exclude-standard -- "$@"
    else
        local pattern
        for pattern in "$@"; do find . -path ./build -prune -o -path "./$pattern" -type f -print; done | sed 's|^\./||' | sort -u
    fi
}

sources() { # FOLDER...: C files and headers below
    local folder
    for folder in "$@"; do files "$folder/*.c" "$folder/*.h"; done
}

# code FILE...: "file:line:text" without comments and string literals, so that a word in a comment is not a call. Lines keep their numbers.
code() {
    python3 - "$@" <<'END'
import re, sys
for name in sys.argv[1:]:
    text = open(name).read()
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', lambda m: '""' * m.group().startswith('"') + "\n" * m.group().count("\n"), text, flags=re.S)
    for number, line in enumerate(text.split("\n"), 1):
        print(f"{name}:{number}:{line}")
END
}

# nothing: fails when there is input, and shows it after the message
nothing() {
    local found
    found=$(cat)
    [ -z "$found" ] || { printf '%s:\n%s\n' "$1" "$found" >&2 && return 1; }
}

# only_in HOMES... : of "file:line:text" on stdin, what stands in another file
outside() {
    grep -vE "^($(IFS='|' && echo "$*")):" || true
}

hook_symbols() {
    gcc -E -P -Ihooks hooks/export.c | sed -n 's/^ *EXPORT *"\(.*\)" *$/\1/p' | sort -u
}

# ---- what the library brings into every process below the launcher

@test "the shim loads no library but libc" {
    run -0 readelf -d "$SHIM"
    [ "$(sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' <<<"$output" | grep -v '^ld-linux')" = libc.so.6 ]
}

@test "a process sees of the shim the functions of the hook table and nothing else" {
    diff -u <(hook_symbols) <(nm -D --defined-only "$SHIM" | awk '{print $3}' | sort -u)
    # close, execve and read are not among them: they look at a number, without a lock or an allocation, before they pass on (hooks/files, hooks/seed/device.c)
    nm -D --defined-only "$SHIM" | awk '{print $3}' | grep -xE 'dlopen|dlsym|malloc|calloc|realloc|free|write|fork|vfork' |
        nothing "functions that must never be hooked (style of preload libraries: they recurse or deadlock)"
}

@test "the shim's functions carry no version, so that versioned references of other libraries reach them" {
    readelf -V "$SHIM" | grep -A3 'gnu.version_d' | nothing "version definitions"
}

@test "the shim takes at most 64 bytes of every thread's memory, and never asks for more at run time" {
    tls=$(readelf -lW "$SHIM" | awk '$1 == "TLS" {print $6}')
    [ $((${tls:-0})) -le 64 ]
    nm -D --undefined-only "$SHIM" | grep __tls_get_addr | nothing "a thread-local model that allocates"
}

@test "both binaries run with the oldest glibc that docs/limits.md promises" {
    promised=$(sed -n 's/.*glibc \([0-9.]*\) or newer.*/\1/p' docs/limits.md | head -1)
    [ -n "$promised" ]
    needed=$(objdump -T "$SHIM" "$BUILD/accel-run" | grep -oE 'GLIBC_[0-9.]+' | sed 's/GLIBC_//' | sort -uV | tail -1)
    [ "$(printf '%s\n%s\n' "$needed" "$promised" | sort -V | tail -1)" = "$promised" ] || { echo "needs glibc $needed, docs/limits.md says $promised" >&2 && return 1; }
}

@test "the libraries are looked up in two places of the shim only" {
    # resolve.c and unwind.c find what the process has loaded; begin.c asks for Python's lock; seed.c takes the next libc function, before it may be called
    mapfile -t all < <(sources shim hooks)
    code "${all[@]}" | grep -E '\bdl(open|sym|vsym)\b' | outside shim/resolve.c shim/unwind.c shim/torch/begin.c hooks/seed/seed.c | nothing "dlopen or dlsym"
    code "${all[@]}" | grep -w RTLD_NEXT | outside shim/resolve.c hooks/seed/seed.c | nothing "RTLD_NEXT, which sees nothing of libtorch under Python: resolve.c knows"
}

@test "the environment is read in one place of each side and never changed" {
    mapfile -t all < <(sources shim hooks launcher config)
    code "${all[@]}" | grep -E '\b(secure_)?getenv\b' | outside shim/link.c launcher/main.c | nothing "getenv"
    code "${all[@]}" | grep -E '\b(setenv|putenv|unsetenv|clearenv)\b' | nothing "changes of the environment"
}

@test "only the launcher's main ends a process; the shim leaves a program alive" {
    mapfile -t all < <(sources shim hooks launcher config)
    code "${all[@]}" | grep -E '(^|[^_[:alnum:]])(exit|quick_exit|_Exit)\(' | outside launcher/main.c | nothing "exit()"
    # forked children that never were the program; a rank whose launcher is gone
    code "${all[@]}" | grep -E '\b_exit\(' | outside launcher/spawn.c launcher/guard.c shim/link.c shim/problem.c | nothing "_exit()"
    # an exception without an unwinder
    code "${all[@]}" | grep -E '\babort\(' | outside shim/unwind.c | nothing "abort()"
}

@test "the shim writes nothing to the program's stdout or stderr" {
    mapfile -t all < <(sources shim hooks)
    # dprintf in problem.c: a problem, when the launcher cannot be told any more
    code "${all[@]}" | grep -E '\b(v?f?printf|puts|fputs|putchar|fputc|perror|psignal|v?dprintf)\(' | grep -vE '^shim/problem.c:.*dprintf\(2,' | nothing "output"
    # last_words.c empties the program's own buffer
    code "${all[@]}" | grep -E '\b(stdout|STDOUT_FILENO)\b' | grep -v '^shim/last_words.c:' | nothing "stdout"
}

# ---- who may call whom

# Every #include "..." as: including file, space, included file from the top of the repository. "shard.h" in the template stands for the folder it is to
# be copied to.
includes() {
    python3 - "$@" <<'END'
import os, re, sys
for name in sys.argv[1:]:
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', open(name).read(), re.M):
        path = os.path.normpath(os.path.join(os.path.dirname(name), included))
        if name == "hooks/null/null_rule.c" and included == "shard.h":
            path = "hooks/null/shard.h"
        print(name, path)
END
}

@test "the launcher and its settings know nothing of the shim" {
    mapfile -t all < <(sources launcher config)
    includes "${all[@]}" | awk '$2 !~ /^(launcher|config)\//' | nothing "includes"
    mapfile -t config < <(sources config)
    includes "${config[@]}" | awk '$2 !~ /^config\//' | nothing "includes of config/"
}

@test "one file reads YAML" {
    mapfile -t all < <(sources launcher config)
    code "${all[@]}" | grep -E 'include <yaml.h>|\byaml_(parser|document|event)_' | outside config/yaml.c | nothing "libyaml"
}

@test "a feature includes shim.h and its own folder, never another feature" {
    mapfile -t all < <(sources hooks)
    includes "${all[@]}" | awk '{ split($1, from, "/"); split($2, to, "/") }
        $2 == "shim/shim.h" || (to[1] == "hooks" && to[2] == from[2]) || ($1 == "hooks/export.c" && $2 == "hooks/hooks.def") { next } { print }' |
        nothing "includes (what two features need belongs into shim.h)"
}

@test "the collectives know nothing of libtorch" {
    mapfile -t all < <(sources shim/comm)
    includes "${all[@]}" | awk '$2 !~ /^(shim\/comm|config)\//' | nothing "includes of shim/comm/"
    code "${all[@]}" | grep -E '\b(tensor|TORCH_CALL|torch_)' | nothing "words of libtorch in shim/comm/"
}

@test "the shim reaches the features through the hook table and the dispatch client only" {
    mapfile -t all < <(sources shim)
    includes "${all[@]}" | awk '$2 !~ /^(shim|config)\// && $2 != "hooks/hooks.def"' | nothing "includes of shim/"
}

@test "offsets and mangled names stay in shim/torch/ and in the tables" {
    mapfile -t all < <(sources hooks)
    grep -nE '"_Z[A-Z]' "${all[@]}" | nothing "mangled names in the code of hooks/ (they belong into the .def)"
}

# ---- how files look

@test "nothing stands at the top but what belongs there" { # what a program leaves where it was run goes into a commit easily
    files '*' | cut -d/ -f1 | sort -u | grep -vxE '\.ci|\.clang-format|\.gitignore|Makefile|README\.md|config|docs|hooks|launcher|shim|tests' |
        nothing "not of the tree"
}

@test "no file is longer than 420 lines" {
    mapfile -t all < <(files '*.c' '*.h' '*.def' '*.bats' '*.bash' '*.py' '*.cpp' '*.mk' | grep -v '^tests/.*\.bats$')
    wc -l "${all[@]}" | awk '$2 != "total" && $1 > 420' | nothing "files"
}

@test "no struct hides behind a typedef" {
    mapfile -t all < <(sources shim hooks launcher config)
    code "${all[@]}" | grep -E 'typedef (struct|union|enum)\b[^(]*$' | nothing "typedefs"
}

@test "Python text in the library is read by Python 3.7, too" {
    python3 -W ignore -c "import lib2to3.pygram" || skip "python3 has no lib2to3"
    run -0 python3 tests/embedded-python shim/*.c shim/*/*.c hooks/*/*.c
    [ "${lines[-1]%% *}" -ge 11 ]
}

# clang-format 14 takes `struct operator *op` for C++'s keyword and moves the star.
@test "the C files are formatted (make format does it)" {
    requires command clang-format
    local formatted=$BATS_TEST_TMPDIR/formatted file # a copy: one start for all of them
    mkdir "$formatted"
    mapfile -t all < <(sources shim hooks launcher config tests)
    cp --parents .clang-format "${all[@]}" "$formatted"
    (cd "$formatted" && clang-format -i "${all[@]}" && sed -E -i 's/\boperator\* */operator */' "${all[@]}")
    for file in "${all[@]}"; do
        cmp -s "$file" "$formatted/$file" || echo "$file"
    done | nothing "not as clang-format would have them"
}

@test "no line of the product is longer than 160 characters, comments included" {
    mapfile -t all < <(sources shim hooks launcher config)
    awk 'length > 160 { print FILENAME ":" FNR }' "${all[@]}" | nothing "long lines"
}

@test "all shell scripts pass shellcheck" {
    requires command shellcheck
    mapfile -t scripts < <(files '*' | xargs -r grep -lE '^#!.*\b(bash|sh|bats)$' --)
    # SC2154: variables that bats sets; notes below a warning are about taste
    shellcheck -x -S warning -e SC2154 "${scripts[@]}" tests/*.bash
}

@test "gcc and clang find nothing to warn about" {
    requires command clang
    local cores gcc=$BATS_TEST_TMPDIR/gcc clang=$BATS_TEST_TMPDIR/clang
    cores=$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
    # The shim is compiled by gcc -O2 -Werror for tests/templates.bats. What gcc warns about depends on what its optimiser finds; clang warns before it
    # optimises.
    make -s -j"$cores" CC=gcc DEBUG=1 O="$gcc" "$gcc/accel-run"
    make -s -j"$cores" CC=clang DEBUG=1 OPTIMISE="-O0 -Werror" O="$clang" all
}

@test "no file names a folder of somebody's machine" {
    mapfile -t all < <(files '*')
    grep -nF -e "$REPOSITORY/" "${all[@]}" | nothing "paths of this checkout"
    grep -nE '(^|[^[:alnum:]_.$}/-])/(home|root|Users|mnt|srv)/[[:alnum:]]' "${all[@]}" | nothing "paths of a machine"
}

# ---- messages and documents

@test "every message has an entry in docs/troubleshooting.md, and every entry a message" {
    mapfile -t all < <(sources shim hooks launcher config)
    diff -u <(grep -ohE 'AR-[A-Z]+(-[A-Z]+)*' "${all[@]}" | sort -u) <(sed -n 's/^### //p' docs/troubleshooting.md | grep -oE 'AR-[A-Z-]+' | sort -u)
}

@test "the documents name only files that exist" {
    mapfile -t documents < <(files '*.md')
    for document in "${documents[@]}"; do
        # shellcheck disable=SC2016
        grep -oE '`(shim|hooks|launcher|config|tests|docs)/[A-Za-z0-9_./-]*`' "$document" | tr -d '`' | sort -u | while read -r path; do
            [ -e "$path" ] || echo "$document: $path"
        done
    done | nothing "paths"
}
