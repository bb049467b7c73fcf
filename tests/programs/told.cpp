// A program that saves when it is told to end.   told flag FILE, or told until STEPS FILE: as many steps, told by nobody.   handlers: what it is shown of
// the handlers that it sets.   suspended|paused FILE: a thread of its own trains, and has the signal
// blocked or not; the main thread waits for it.   early FILE: its handler was set before there was libtorch in the process.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <thread>
#include <torch/torch.h>

namespace {
volatile std::sig_atomic_t told = 0;

void handler(int) {
    told = told + 1;
}

void handler_of_all(int number, siginfo_t *info, void *context) {
    if (info->si_signo == number && info->si_pid == getpid() && context)
        told = told + 10;
}

// By the name that libc has for itself: as if it had been called by a program that loads its libtorch later.
extern "C" int __sigaction(int, const struct sigaction *, struct sigaction *);

void set_handler(bool is_early) {
    struct sigaction action {};
    action.sa_handler = handler;
    if (is_early)
        __sigaction(SIGTERM, &action, nullptr);
    else
        std::signal(SIGTERM, handler);
}

bool is_set(int number, void (*expected)(int)) {
    struct sigaction seen;
    return sigaction(number, nullptr, &seen) == 0 && seen.sa_handler == expected;
}

// Each is told of itself, where training has not begun: at once.
int handlers() {
    struct sigaction once {}, informed {};
    once.sa_handler = handler;
    once.sa_flags = SA_RESETHAND;
    informed.sa_sigaction = handler_of_all;
    informed.sa_flags = SA_SIGINFO;
    bool right = is_set(SIGUSR1, SIG_DFL) && std::signal(SIGUSR1, handler) == SIG_DFL && is_set(SIGUSR1, handler);
    std::raise(SIGUSR1);
    right = right && told == 1 && std::signal(SIGUSR1, SIG_IGN) == handler && is_set(SIGUSR1, SIG_IGN);
    std::raise(SIGUSR1);
    right = right && told == 1 && sigaction(SIGUSR1, &informed, nullptr) == 0;
    std::raise(SIGUSR1);
    right = right && told == 11 && sigaction(SIGUSR2, &once, nullptr) == 0;
    std::raise(SIGUSR2);
    right = right && told == 12 && is_set(SIGUSR2, SIG_DFL);
    std::printf("handlers are %s\n", right ? "right" : "wrong");
    return right ? 0 : 1;
}
// The thread that trains inherits what is blocked.
template <typename F> void wait_beside(F train, bool is_blocked) {
    sigset_t number, before;
    sigemptyset(&number);
    sigaddset(&number, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &number, &before);
    if (!is_blocked)
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    std::thread trainer(train);
    while (!told)
        is_blocked ? sigsuspend(&before) : pause();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    trainer.join();
}
} // namespace

int main(int, char **arguments) {
    if (!std::strcmp(arguments[1], "handlers"))
        return handlers();
    bool is_told = std::strcmp(arguments[1], "until") != 0;
    set_handler(!std::strcmp(arguments[1], "early"));
    const char *path = arguments[is_told ? 2 : 3];
    int limit = is_told ? 1 << 30 : std::atoi(arguments[2]), steps = 0;
    bool is_suspended = !std::strcmp(arguments[1], "suspended"), is_paused = !std::strcmp(arguments[1], "paused");
    torch::manual_seed(0);
    torch::nn::Linear model(4, 2);
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    torch::Tensor data = torch::randn({12, 4}), targets = torch::randn({12, 2});
    auto train = [&] {
        while (!told && steps < limit) {
            optimizer.zero_grad();
            (model(data) - targets).pow(2).mean().backward();
            optimizer.step();
            if (++steps == 20)
                std::printf("begun\n"), std::fflush(stdout);
        }
    };
    if (is_suspended || is_paused)
        wait_beside(train, is_suspended);
    else
        train();
    torch::save(model, path);
    std::printf("saved after %d %.9g %.9g\n", steps, model->weight.sum().item<double>(), model->bias.sum().item<double>());
}
