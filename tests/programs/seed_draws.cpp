// Draws from every source of randomness that an unseeded program may use, and prints what it got. Then trains one step.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/random.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static unsigned draw_system() {
    unsigned word = 0;
    return getrandom(&word, sizeof word, 0) == sizeof word ? word : 0;
}

static unsigned read_device() {
    unsigned word = 0;
    int file = open("/dev/urandom", O_RDONLY);
    if (file < 0 || read(file, &word, sizeof word) != sizeof word) {
        std::perror("/dev/urandom");
    }
    close(file);
    return word;
}

static unsigned read_stream(const char *path) {
    unsigned word = 0;
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char *>(&word), sizeof word);
    return word;
}

// A worker of a loader: forked, draws, tells by its output.
static void worker(int number) {
    std::fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        std::random_device device;
        std::printf("worker %d: %u %u\n", number, device(), draw_system());
        std::fflush(stdout);
        _exit(0);
    }
    waitpid(child, nullptr, 0);
}

int main() {
    std::random_device device;
    std::printf("random_device: %u %u\n", device(), device());
    std::thread([] { draw_system(); }).join(); // another thread's draws do not shift the main thread's
    std::printf("getrandom: %u %u\n", draw_system(), draw_system());
    std::printf("urandom: %u %u %u\n", read_device(), read_stream("/dev/urandom"), read_stream("/dev/random"));
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    for (const auto begun = std::time(nullptr); rank && *rank != '0' && std::time(nullptr) == begun;) { // a second ends between the ranks
        usleep(1000);
    }
    std::srand(static_cast<unsigned>(std::time(nullptr)));
    std::printf("srand(time): %d\n", std::rand());
    srand48(std::time(nullptr));
    std::printf("srand48(time): %.6f\n", drand48());
    std::printf("torch: %.6f\n", torch::rand({}).item<double>());
    torch::manual_seed(std::time(nullptr));
    std::printf("manual_seed(time): %.6f\n", torch::rand({}).item<double>());
    worker(0);
    worker(1);
    // A seed that somebody chose is not touched.
    std::srand(42);
    torch::manual_seed(42);
    std::printf("chosen: %d %.6f\n", std::rand(), torch::rand({}).item<double>());
    torch::nn::Linear model(2, 1);
    model->forward(torch::ones({4, 2})).sum().backward();
    std::printf("gradient: %.1f\n", model->bias.grad().item<double>());
}
