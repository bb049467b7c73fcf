// A small training run that does to its process what programs do.
//
//   restless fork | exec | system | daemon | close
//
// After two steps it forks a child that trains too, executes itself again, calls system(), leaves a daemon behind, or closes every descriptor but the
// first three; then it goes on.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

static void train(int steps) {
    torch::manual_seed(1);
    torch::nn::Linear model(8, 2);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 1; step <= steps; step++) {
        optimizer.zero_grad();
        auto loss = model(torch::randn({16, 8})).pow(2).mean();
        loss.backward();
        optimizer.step();
        std::printf("step %d loss %.5f\n", step, loss.item<double>());
    }
    std::fflush(stdout);
}

static void leave_daemon() {
    if (fork() == 0) {
        setsid();
        if (fork() == 0) {
            std::freopen("/dev/null", "w", stdout);
            for (;;)
                pause();
        }
        _exit(0);
    }
    wait(nullptr);
}

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    train(2);
    int status = 0;
    if (what == "fork") {
        if (fork() == 0) {
            train(1);
            _exit(3);
        }
        wait(&status);
        std::printf("the child ended with %d\n", WEXITSTATUS(status));
    } else if (what == "exec") {
        execl("/proc/self/exe", argv[0], "again", nullptr);
    } else if (what == "system") {
        std::printf("system() gave %d\n", WEXITSTATUS(std::system("echo said; echo once >>times; exit 5")));
    } else if (what == "daemon") {
        leave_daemon();
    } else if (what == "close") {
        for (int i = 3; i < 1024; i++)
            close(i);
    }
    train(3);
    return what == "again" ? 9 : 0;
}
