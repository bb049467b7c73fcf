// A C++ program that trains beside an interpreter of its own.
//
//   embeds_python LIBRARY held|loaded|ended
//
// held: main() has the interpreter's lock, and waits for the thread that trains. loaded: it has never begun. ended: it was there before.
#include <torch/torch.h>

#include <dlfcn.h>

#include <cstdio>
#include <string>
#include <thread>

static void train() {
    torch::manual_seed(1);
    torch::nn::Linear model(4, 3);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 3; step++) {
        auto loss = model(torch::randn({12, 4})).pow(2).mean();
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        std::printf("loss %.4f\n", loss.item<double>());
    }
}

int main(int argc, char **argv) {
    void *python = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : nullptr;
    if (!python) {
        std::puts("no interpreter");
        return 2;
    }
    const std::string how = argv[2];
    if (how != "loaded")
        ((void (*)())dlsym(python, "Py_Initialize"))();
    if (how == "ended")
        ((int (*)())dlsym(python, "Py_FinalizeEx"))();
    std::thread(train).join();
}
