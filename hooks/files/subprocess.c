/*
 * Commands that a Python program runs and waits for (subprocess.run() and its like): once, by rank 0, as those of system() (command.c). Its outcome, output and
 * exceptions included, is what all ranks get. Two cp's at once, of two ranks, found each other's new file: "File exists", and the job ended.
 *
 * Only calls of the program's own code: libraries that compile or download have ways of their own among processes, by locks and by what is there already, in
 * which one rank runs a command and others do not. Not what reads from the program, writes to a file that it has open, or shares descriptors with it.
 */
#include <stdlib.h>

#include "files.h"

static const char code[] = "import functools, os, pickle, subprocess, sys\n"
                           "library = os.path.dirname(os.__file__) + os.sep\n"
                           "def is_of_program(path):\n"
                           "    return not (path.startswith((library, '<frozen')) or 'site-packages' in path or 'dist-packages' in path)\n"
                           "def is_shown(stream):\n"
                           "    return stream is None or (stream if isinstance(stream, int) else stream.fileno()) < 3\n"
                           "def told(command, named):\n"
                           "    apart = named.get('preexec_fn') or named.get('pass_fds') or not named.get('close_fds', True)\n"
                           "    reads = named.get('stdin') not in (None, subprocess.DEVNULL)\n"
                           "    if apart or reads or not (is_shown(named.get('stdout')) and is_shown(named.get('stderr'))):\n"
                           "        return b''\n"
                           "    parts = [command] if isinstance(command, (str, bytes, os.PathLike)) else list(command)\n"
                           "    parts += [named.get('cwd') or '', *(named.get('env') or {}).values()]\n"
                           "    return b' '.join(os.fsencode(part) for part in parts)\n"
                           "def told_safely(given, named):\n"
                           "    try:\n"
                           "        return told(*given, named) if given else told(named['args'], named)\n"
                           "    except Exception:\n" /* the call itself will say what is wrong with it */
                           "        return b''\n"
                           "def run_for_all(original, given, named):\n"
                           "    try:\n"
                           "        outcome, has_failed = original(*given, **named), False\n"
                           "    except BaseException as error:\n"
                           "        outcome, has_failed = error, True\n"
                           "    parts = outcome\n"
                           "    if isinstance(outcome, subprocess.CompletedProcess):\n"
                           "        parts = outcome.returncode, outcome.stdout, outcome.stderr\n"
                           "    try:\n"
                           "        said = pickle.dumps((parts, has_failed))\n"
                           "    except Exception:\n"
                           "        said = pickle.dumps((RuntimeError(str(outcome)), True))\n"
                           "    command(said, len(said))\n"
                           "    if has_failed:\n"
                           "        raise outcome\n"
                           "    return outcome\n"
                           "def hear(original, given, named):\n"
                           "    said = command()\n"
                           "    if not said:\n"
                           "        return original(*given, **named)\n"
                           "    outcome, has_failed = pickle.loads(said)\n"
                           "    if has_failed:\n"
                           "        raise outcome\n"
                           "    if not isinstance(outcome, tuple) or len(outcome) < 3:\n"
                           "        return outcome\n"
                           "    return subprocess.CompletedProcess(given[0] if given else named['args'], *outcome)\n"
                           "def once(original):\n"
                           "    @functools.wraps(original)\n"
                           "    def shared(*given, **named):\n"
                           "        text = told_safely(given, named) if is_of_program(sys._getframe(1).f_code.co_filename) else b''\n"
                           "        part = command(text) if text else b''\n"
                           "        if not part:\n"
                           "            return original(*given, **named)\n"
                           "        return run_for_all(original, given, named) if part == b'first' else hear(original, given, named)\n"
                           "    return shared\n"
                           "names = 'run', 'call', 'check_call', 'check_output', 'getoutput', 'getstatusoutput'\n"
                           "shared = {getattr(subprocess, name): once(getattr(subprocess, name)) for name in names}\n"
                           "for module in list(sys.modules.values()):\n" /* also where one is imported by its name, or another */
                           "    known = getattr(module, '__dict__', {})\n"
                           "    if module is subprocess or is_of_program(str(known.get('__file__'))):\n"
                           "        for name, value in list(known.items()):\n"
                           "            if type(value) is type(once) and value in shared:\n"
                           "                known[name] = shared[value]\n";

static struct meeting meeting; /* of the main thread alone */

/* command(text): b"": each rank runs its own; b"first": this one runs it for all; b"later": it waits. */
static struct object *begin(const struct python_api *python, const char *text) {
    static const char *const words[] = {[COMMAND_OWN] = "", [COMMAND_FIRST] = "first", [COMMAND_LATER] = "later"};
    enum command_part part = COMMAND_OWN;
    if (command_is_met_for(text)) {
        void *state = python_let_go();
        part = command_begin(&meeting, text);
        python_take_again(state);
    }
    return python->bytes_new(words[part], (int64_t)strlen(words[part]));
}

static void broadcast(void *outcome, uint64_t bytes) {
    SHIM_COMM_SCOPE;
    comm_broadcast("what a command has led to", outcome, bytes, 0);
}

/* command(outcome, bytes): on the rank that has run it. */
static struct object *say(const struct python_api *python, char *outcome, uint64_t bytes) {
    void *state = python_let_go();
    command_end(&meeting, 0, 0);
    broadcast(&bytes, sizeof bytes);
    broadcast(outcome, bytes);
    python_take_again(state);
    return python->bytes_new("", 0);
}

/* The outcome of rank 0. Owned. */
static char *receive(uint64_t *bytes) {
    broadcast(bytes, sizeof *bytes);
    char *outcome = malloc(*bytes);
    broadcast(outcome, *bytes);
    return outcome;
}

/* command(): what the others get; b"": each rank runs its own. */
static struct object *hear(const struct python_api *python) {
    uint64_t bytes = 0;
    void *state = python_let_go();
    char *outcome = command_await(&meeting) ? receive(&bytes) : NULL;
    python_take_again(state);
    struct object *result = python->bytes_new(outcome ? outcome : "", (int64_t)bytes);
    free(outcome);
    return result;
}

static struct object *command(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    int64_t count = python->tuple_size(arguments);
    if (!count)
        return hear(python);
    char *text = python->bytes_text(python->tuple_get(arguments, 0));
    return count == 1 ? begin(python, text)
                      : say(python, text, (uint64_t)(uintptr_t)python->number_address(python->tuple_get(arguments, 1)));
}

/* Interpreter's lock held. */
void subprocess_ready(struct object *base) {
    static const struct python_method method = {"command", command, PYTHON_VARARGS, NULL};
    python_extend(code, &method, base);
}
