/*
 * Optimizers and schedulers of C++ programs, for `accel-run explain`. They need nothing else: every rank makes the same step from the same gradients.
 */
#include "../../shim/shim.h"

#define WATCH_OPTIMIZER(row, words)                                                                                                        \
    void *hook_##row(void *result, void *self, void *closure) {                                                                            \
        if (shim_active())                                                                                                                 \
            explain_object("optimizer", self, words, "");                                                                                  \
        return ORIGINAL(row)(result, self, closure);                                                                                       \
    }

WATCH_OPTIMIZER(watch_sgd, "torch::optim::SGD")
WATCH_OPTIMIZER(watch_adam, "torch::optim::Adam")
WATCH_OPTIMIZER(watch_adamw, "torch::optim::AdamW")
WATCH_OPTIMIZER(watch_lbfgs, "torch::optim::LBFGS")
WATCH_OPTIMIZER(watch_adagrad, "torch::optim::Adagrad")
WATCH_OPTIMIZER(watch_rmsprop, "torch::optim::RMSprop")

void *hook_watch_step_lr(void *result, void *self) {
    if (shim_active())
        explain_object("scheduler", self, "torch::optim::StepLR", "");
    return ORIGINAL(watch_step_lr)(result, self);
}
