/*
 * Operators of Python that take functions: torch.cond, scan, and what torch.func calls for a custom autograd function. PyTorch looks for a function of theirs
 * in Python for the highest dispatch key of the arguments and does not know ours: for them our keys are none. Those that want their functions compiled
 * (the launcher switches torch.compile off) would compute without it, but differentiate nothing that the functions have from outside: they are refused.
 *
 * Switched off, torch.compile gives the same modules as ever (`_orig_mod.` in the names of a checkpoint), which run as they are; but with fullgraph=True, which
 * flex_attention asks for, too, a module throws since PyTorch 2.13 when nothing of it has been compiled: it counts, and here nothing is counted.
 */
#include <stdio.h>

#include "shard.h"

static const char code[] = "import os, sys\n"
                           "torch, ops = sys.modules['torch'], sys.modules['torch._ops']\n"
                           "ours = [torch._C.DispatchKey(key) for key in (%d, %d)]\n"
                           "for op in getattr(ops, '_higher_order_ops', {}).values():\n"
                           "    for key in ours:\n"
                           "        op.fallthrough(key)\n"
                           "later = getattr(ops, '_HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS', None)\n"
                           "if isinstance(later, list):\n"
                           "    later.extend(ours)\n"
                           "kind = getattr(ops, 'HigherOrderOperator', None)\n"
                           "is_off = os.environ.get('TORCH_COMPILE_DISABLE') == '1'\n"
                           "frames = getattr(getattr(torch._C, '_dynamo', None), 'eval_frame', None)\n"
                           "if is_off and hasattr(frames, 'set_fullgraph_compiled_frame_count'):\n"
                           "    frames.set_fullgraph_compiled_frame_count = lambda count: 0\n"
                           "if is_off and kind:\n"
                           "    original = kind.__call__\n"
                           "    compiled = 'cond', 'while_loop', 'while_loop_stack_output', 'scan', 'associative_scan', 'map', 'map_impl'\n"
                           "    def call(self, *values, **named):\n"
                           "        if getattr(self, '__name__', '') in compiled and torch.is_grad_enabled():\n"
                           "            refuse(self.__name__.encode())\n"
                           "        return original(self, *values, **named)\n"
                           "    kind.__call__ = call\n";

static struct object *refuse(struct object *self, struct object *arguments) {
    const struct python_api *python = python_api();
    shim_problem("AR-HIGHER-ORDER", "Write it as Python's if or for, of which all ranks take the same way, or run with -n 1.",
                 "Python's operator %s would have gradients: it needs torch.compile, which is switched off in ranks",
                 (char *)python->bytes_text(python->tuple_get(arguments, 0)));
}

/* Interpreter's lock held. Releases before 2.0 have no such operators. */
void higher_order_ready(struct object *base) {
    static const struct python_method method = {"refuse", refuse, PYTHON_VARARGS, NULL};
    char text[sizeof code + 16];
    snprintf(text, sizeof text, code, torch_facts.key_shard, torch_facts.key_parameter);
    python_extend(text, &method, base);
}
