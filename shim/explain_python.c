/*
 * The loaders, optimizers and schedulers of a Python program: objects of torch's own classes and of classes made from them, as the interpreter's collector
 * knows them. Only `accel-run explain` looks.
 */
#include "explain.h"
#include "shim.h"

static const char question[] =
    "import gc, sys\n"
    "torch, said = sys.modules.get('torch'), []\n"
    "def say(kind, o, detail): said.append(kind + '\\t' + type(o).__name__ + '\\t' + detail)\n"
    "optim = getattr(torch, 'optim', None)\n"
    "rates = getattr(optim, 'lr_scheduler', None)\n"
    "rate = tuple(getattr(rates, n) for n in ('LRScheduler', '_LRScheduler', 'ReduceLROnPlateau') if hasattr(rates, n))\n"
    "load = getattr(getattr(getattr(torch, 'utils', None), 'data', None), 'DataLoader', None)\n"
    "for o in gc.get_objects():\n"
    "    try:\n"
    "        if optim and issubclass(type(o), optim.Optimizer):\n"
    "            groups = len(o.param_groups)\n"
    "            say('optimizer', o, '%d parameters in %d group%s, learning rate %s' % (sum(len(g['params']) for g in o.param_groups),\n"
    "                groups, 's' * (groups != 1), ', '.join(str(g.get('lr')) for g in o.param_groups[:4])))\n"
    "        elif rate and issubclass(type(o), rate):\n"
    "            say('scheduler', o, 'of ' + type(o.optimizer).__name__)\n"
    "        elif load and issubclass(type(o), load):\n"
    "            say('loader', o, 'batches of %s, %s workers, %s' % (o.batch_size, o.num_workers, type(o.sampler).__name__))\n"
    "    except Exception:\n"
    "        pass\n"
    "said = '\\n'.join(said).encode()\n";

/* Lines "kind name detail", with tabs between. */
static void note_lines(char *text) {
    static const char *const kinds[] = {"loader", "optimizer", "scheduler"};
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        char *kind = strsep(&line, "\t"), *name = strsep(&line, "\t");
        for (size_t i = 0; name && line && i < sizeof kinds / sizeof *kinds; i++)
            if (!strcmp(kinds[i], kind))
                explain_note(kinds[i], name, line);
    }
}

void explain_python(void) {
    static _Atomic bool done;
    const struct python_api *api = shim_rank() == 0 && !atomic_load(&done) ? python_to_lock() : NULL;
    if (!api || atomic_exchange(&done, true))
        return;
    int lock = api->lock();
    struct object *names = python_run(question, NULL, NULL), *said = names ? api->dictionary_get(names, "said") : NULL;
    if (said)
        note_lines(api->bytes_text(said));
    if (names)
        api->release(names);
    api->unlock(lock);
}
