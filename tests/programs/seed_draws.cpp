// Draws from every source of randomness that an unseeded program may use, and prints what it got. Then trains one step.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static unsigned draw_system() {
    unsigned word = 0;
    return getrandom(&word, sizeof word, 0) == sizeof word ? word : 0;
}

// As Pythons ask that are built for a libc before 2.25.
static unsigned ask_kernel() {
    unsigned word = 0;
    return syscall(SYS_getrandom, &word, sizeof word, 0) == sizeof word ? word : 0;
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

// Two workers that share the parent's descriptor, of which another one comes first on each rank; each tells by its exit status, 7 bits of what it has read.
static void sharing_workers(int device) {
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    pid_t children[2];
    int gates[2][2];
    for (int i = 0; i < 2; i++) {
        if (pipe(gates[i]) == 0 && (children[i] = fork()) == 0) {
            unsigned char byte = 0;
            bool may_read = read(gates[i][0], &byte, 1) == 1 && read(device, &byte, 1) == 1;
            _exit(may_read ? byte & 127 : 128);
        }
    }
    int first = rank && *rank != '0', statuses[2];
    for (int i : {first, 1 - first}) {
        if (write(gates[i][1], "", 1) == 1) {
            waitpid(children[i], &statuses[i], 0);
        }
    }
    std::printf("sharing workers: %d %d\n", WEXITSTATUS(statuses[0]), WEXITSTATUS(statuses[1]));
}

// One descriptor for as long as the process lives, for more than any file of agreed bytes holds.
static void read_kept_device() {
    unsigned sum = 0, words[1024];
    int device = open("/dev/urandom", O_RDONLY);
    sharing_workers(device);
    for (int i = 0; i < 512; i++) {
        if (read(device, words, sizeof words) != sizeof words) {
            std::perror("/dev/urandom has ended");
            std::exit(1);
        }
        for (unsigned word : words) {
            sum = sum * 31 + word;
        }
    }
    std::printf("kept: %u\n", sum);
    close(device);
    // Its number is another file's now.
    char text[5] = {};
    int other = open("/proc/self/comm", O_RDONLY);
    std::printf("another file: %d %s\n", other == device, read(other, text, 4) == 4 ? text : "?");
    close(other);
}

int main() {
    std::random_device device;
    std::printf("random_device: %u %u\n", device(), device());
    std::thread([] { draw_system(); }).join(); // another thread's draws do not shift the main thread's
    std::printf("getrandom: %u %u\n", draw_system(), draw_system());
    std::printf("syscall: %u\n", ask_kernel());
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
    read_kept_device();
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
