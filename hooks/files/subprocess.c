/*
 * Commands that a Python program runs and waits for (subprocess.run() and its like): once, by rank 0, as those of system() (command.c). Its outcome, output and
 * exceptions included, is what all ranks get. Two cp's at once, of two ranks, found each other's new file: "File exists", and the job ended.
 *
 * Only calls of the program's own code: libraries that compile or download have ways of their own among processes, by locks and by what is there already, in
 * which one rank runs a command and others do not. Except libtorch's that compiles the program's extensions: its lock is a file, which all ranks are given, and
 * they compiled in one folder at the same time. Not what reads from the program, writes to a file that it has open, or shares descriptors with it.
 */
#include <stdlib.h>

#include "alias.h"
#include "command.h"

static const char code[] =
    "import functools, os, pickle, subprocess, sys\n"
    "library = os.path.dirname(os.__file__) + os.sep\n"
    "def is_of_program(path):\n"
    "    is_of_library = path.startswith((library, '<frozen')) or 'site-packages' in path or 'dist-packages' in path\n"
    "    return not is_of_library or path.endswith('/torch/utils/cpp_extension.py')\n"
    "def is_shown(stream):\n"
    "    return stream is None or (stream if isinstance(stream, int) else stream.fileno()) < 3\n"
    "def told(command, named):\n"
    "    apart = named.get('preexec_fn') or named.get('pass_fds') or not named.get('close_fds', True)\n"
    "    reads = named.get('stdin') not in (None, subprocess.DEVNULL)\n"
    "    if apart or reads or not (is_shown(named.get('stdout')) and is_shown(named.get('stderr'))):\n"
    "        return None\n"
    "    parts = command if isinstance(command, (list, tuple)) else [command]\n"
    "    given, own = named.get('input') or b'', os.environb\n"
    "    variables = [(os.fsencode(name), os.fsencode(value)) for name, value in (named.get('env') or {}).items()]\n"
    "    unshown = [os.fsencode(given) if isinstance(given, str) else bytes(given), os.fsencode(named.get('cwd') or '')]\n"
    "    unshown += [value for name, value in variables if own.get(name) != value]\n"
    "    return b' '.join(map(os.fsencode, parts)), b' '.join(unshown).replace(b'\\0', b' ')\n"
    "def caller():\n"
    "    try:\n"
    "        return sys._getframe(3).f_code.co_filename\n"
    "    except ValueError:\n"
    "        return ''\n" /* the interpreter itself: atexit */
    "def told_safely(given, named):\n"
    "    try:\n"
    "        if is_of_program(caller()):\n"
    "            return told(*given, named) if given else told(named['args'], named)\n"
    "    except Exception:\n"
    "        pass\n" /* the call itself will say what is wrong with it */
    "def pickled(outcome, has_failed):\n"
    "    if isinstance(outcome, subprocess.CompletedProcess):\n"
    "        outcome = outcome.returncode, outcome.stdout, outcome.stderr\n"
    "    said = pickle.dumps((outcome, has_failed))\n"
    "    pickle.loads(said)\n" /* what only rank 0 could raise nobody does */
    "    return said\n"
    "def run_for_all(original, given, named, outcome):\n"
    "    try:\n"
    "        outcome[:] = original(*given, **named), False\n"
    "    except BaseException as error:\n"
    "        outcome[:] = error, True\n"
    "    try:\n"
    "        said = pickled(*outcome)\n"
    "    except Exception:\n"
    "        outcome[:] = RuntimeError(f'{type(outcome[0]).__name__}: {outcome[0]}'), True\n"
    "        said = pickled(*outcome)\n"
    "    return said, len(said)\n"
    "def result_of(outcome, has_failed, given, named):\n"
    "    if has_failed:\n"
    "        raise outcome\n"
    "    if not isinstance(outcome, tuple) or len(outcome) < 3:\n"
    "        return outcome\n"
    "    return subprocess.CompletedProcess(given[0] if given else named['args'], *outcome)\n"
    "def once(original):\n"
    "    @functools.wraps(original)\n"
    "    def shared(*given, **named):\n"
    "        texts, outcome = told_safely(given, named), []\n"
    "        heard = command(*texts, lambda: run_for_all(original, given, named, outcome)) if texts else None\n"
    "        if heard is None:\n"
    "            return original(*given, **named)\n"
    "        return result_of(*(outcome or pickle.loads(heard)), given, named)\n"
    "    return shared\n"
    "names = 'run', 'call', 'check_call', 'check_output', 'getoutput', 'getstatusoutput'\n"
    "shared = {getattr(subprocess, name): once(getattr(subprocess, name)) for name in names}\n"
    "for module, known in names_of_modules():\n"
    "    if module is subprocess or is_of_program(str(known.get('__file__'))):\n"
    "        for name, value in list(known.items()):\n"
    "            if type(value) is type(once) and value in shared:\n"
    "                known[name] = shared[value]\n";

static void broadcast(void *outcome, uint64_t bytes) {
    SHIM_COMM_SCOPE;
    comm_broadcast("what a command has led to", outcome, bytes, 0);
}

/* On rank 0. Owned: what run() returns, which the others get; NULL: it has raised, and they are told so. */
static struct object *run_for_all(const struct python_api *python, struct meeting *meeting, struct object *run) {
    struct object *none = python->tuple_new(0), *said = python->call(run, none);
    char *outcome = said ? python->bytes_text(python->tuple_get(said, 0)) : NULL;
    uint64_t bytes = said ? (uint64_t)(uintptr_t)python->number_address(python->tuple_get(said, 1)) : 0;
    python->release(none);
    void *state = python_let_go();
    signals_hold(false);
    command_end(meeting, 0, 0);
    broadcast(&bytes, sizeof bytes);
    if (bytes)
        broadcast(outcome, bytes);
    python_take_again(state);
    return said;
}

/* On the others. Owned; NULL: nothing has been said. */
static char *receive(uint64_t *bytes) {
    broadcast(bytes, sizeof *bytes);
    char *outcome = *bytes ? malloc(*bytes) : NULL;
    if (*bytes && !outcome)
        shim_problem("AR-MEMORY", "Run on a machine with more memory, or with fewer ranks.",
                     "no memory for the %llu bytes of a command's output", (unsigned long long)*bytes);
    if (outcome)
        broadcast(outcome, *bytes);
    return outcome;
}

/* The outcome of rank 0, as run() gave it; None: each rank runs its own; b"", which pickle refuses: rank 0 was interrupted. */
static struct object *hear(const struct python_api *python, struct meeting *meeting) {
    uint64_t bytes = 0;
    void *state = python_let_go();
    bool is_of_all = command_await(meeting);
    signals_hold(false);
    char *outcome = is_of_all ? receive(&bytes) : NULL;
    python_take_again(state);
    if (!is_of_all) {
        python->retain(python->none);
        return python->none;
    }
    struct object *heard = python->bytes_new(outcome ? outcome : "", (int64_t)bytes);
    free(outcome);
    return heard;
}

static enum command_part begin(struct meeting *meeting, const char *text, const char *unshown) {
    char *told = alias_spell_text(text), *told_unshown = alias_spell_text(unshown);
    enum command_part part =
        command_begin(meeting, &(struct command){text, unshown, told ? told : text, told_unshown ? told_unshown : unshown});
    free(told);
    free(told_unshown);
    return part;
}

/* command(text, unshown, run): what hear() says; run() is called on rank 0, and only there. */
static struct object *command(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    const char *text = python->bytes_text(python->tuple_get(arguments, 0)), *unshown = python->bytes_text(python->tuple_get(arguments, 1));
    struct meeting meeting;
    enum command_part part = COMMAND_OWN;
    if (command_is_met_for(text)) {
        void *state = python_let_go();
        part = begin(&meeting, text, unshown);
        python_take_again(state);
    }
    signals_hold(part != COMMAND_OWN);
    struct object *result = part == COMMAND_FIRST   ? run_for_all(python, &meeting, python->tuple_get(arguments, 2))
                            : part == COMMAND_LATER ? hear(python, &meeting)
                                                    : python->none;
    if (part == COMMAND_OWN)
        python->retain(result);
    shim_run_signals();
    return result;
}

/* Interpreter's lock held. */
void subprocess_ready(struct object *base) {
    static const struct python_method method = {"command", command, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
