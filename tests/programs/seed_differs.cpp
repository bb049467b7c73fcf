// Begins with parameters that depend on the number of the process, which no launcher can make equal, and prints one after a step.
#include <torch/torch.h>

#include <cstdio>
#include <unistd.h>

int main() {
    torch::manual_seed(getpid());
    torch::nn::Linear model(2, 1);
    model->forward(torch::ones({4, 2})).sum().backward();
    std::printf("weight %.6f\n", model->weight.sum().item<double>());
}
