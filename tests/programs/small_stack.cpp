// Reads files where there is little stack, as crash handlers and threads of pools do: before it trains, while a log is open, and where names are known.
#include <torch/torch.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "small_stack.h"

static long bytes_read, files_read;

static void read_files() {
    static const char *const names[] = {"/proc/self/maps", "data.txt", "none.txt"};
    static char bytes[64];
    struct stat status;
    for (const char *name : names) {
        const int file = open(name, O_RDONLY | O_CLOEXEC);
        files_read += file >= 0;
        bytes_read += file >= 0 ? read(file, bytes, sizeof bytes) : 0;
        files_read += file >= 0 && !close(file);
        files_read += !stat(name, &status) && !access(name, R_OK);
    }
}

static void read_all() {
    read_files();
    FILE *const stream = fopen("data.txt", "r"); // on an alternate stack, too, where malloc() is not safe but does work
    files_read += stream && fgetc(stream) == 'd' && !fclose(stream);
}

static double train(torch::nn::Linear &model) {
    auto loss = model(torch::randn({11, 4})).pow(2).mean();
    loss.backward();
    return loss.item<double>();
}

int main() {
    std::ofstream("data.txt") << std::string(1000, 'd');
    on_small_stacks(read_all);
    torch::manual_seed(1);
    torch::nn::Linear model(4, 3);
    std::printf("loss %.4f\n", train(model));
    on_small_stacks(read_all);
    std::ofstream log("log.txt");
    on_small_stacks(read_all);
    log << "loss " << train(model) << std::endl;
    on_small_stacks(read_all);
    std::printf("%ld files, %ld bytes\n", files_read, bytes_read);
}
