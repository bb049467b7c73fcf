// A model and its training in a shared library of its own, which a program loads when it runs: the program itself knows nothing of libtorch.
// Not all of torch/torch.h, which is compiled for nothing else in this way.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>
#include <torch/serialize.h>
#include <torch/utils.h>

#include <cstdio>

struct Plugin : torch::nn::Module {
    Plugin() : first(5, 16), second(16, 3) {
        register_module("first", first);
        register_module("second", second);
    }
    torch::Tensor forward(const torch::Tensor &x) {
        return second(torch::relu(first(x)));
    }
    torch::nn::Linear first, second;
};

extern "C" int plugin_train(int steps) {
    torch::manual_seed(9);
    Plugin model;
    torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(0.01));
    auto x = torch::randn({41, 5});
    auto y = torch::randint(3, {41}, torch::kLong);
    for (int step = 1; step <= steps; step++) {
        optimizer.zero_grad();
        auto loss = torch::nn::functional::cross_entropy(model.forward(x), y);
        loss.backward();
        optimizer.step();
        std::printf("step %d loss %.5f norm %.5f\n", step, loss.item<double>(), model.first->weight.grad().norm().item<double>());
    }
    torch::save(model.first->weight, "plugin.pt");
    return 0;
}
