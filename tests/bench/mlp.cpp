// A training step of a multi-layer perceptron: mlp WIDTH LAYERS BATCH STEPS. Prints the median of a step in microseconds and the peak of resident
// memory in KiB. Data is made once: the step is all that is timed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sys/resource.h>
#include <torch/torch.h>
#include <vector>

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    int64_t width = std::atol(argv[1]), layers = std::atol(argv[2]), batch = std::atol(argv[3]), steps = std::atol(argv[4]);
    torch::manual_seed(1);
    torch::nn::Sequential model;
    for (int64_t layer = 0; layer < layers; layer++) {
        model->push_back(torch::nn::Linear(width, width));
        model->push_back(torch::nn::ReLU());
    }
    model->push_back(torch::nn::Linear(width, 10));
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    torch::Tensor data = torch::randn({batch, width}), labels = torch::randint(10, {batch});
    std::vector<double> taken;
    for (int64_t step = 0; step < steps; step++) {
        auto begin = std::chrono::steady_clock::now();
        optimizer.zero_grad();
        auto loss = torch::nn::functional::cross_entropy(model->forward(data), labels);
        loss.backward();
        optimizer.step();
        taken.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
    }
    std::sort(taken.begin(), taken.end());
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%.1f %ld\n", taken[taken.size() / 2], usage.ru_maxrss);
}
