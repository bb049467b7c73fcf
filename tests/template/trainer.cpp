// What the templates of hooks/null/ are tried on: a small regression whose learning rate falls by a scheduler, whose hidden activations pass
// renorm row by row (the template's rule); with the word "columns", column by column at the end, which no rule can do on one rank's rows.
//
//   trainer [columns]
#include <torch/torch.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

// A scheduler of the program's own that throws at one step: the exception passes through the hook.
class Halving : public torch::optim::LRScheduler {
public:
    explicit Halving(torch::optim::Optimizer &optimizer) : LRScheduler(optimizer) {
    }

private:
    std::vector<double> get_lrs() override {
        if (++calls == 3) {
            throw std::runtime_error("no learning rate today");
        }
        std::vector<double> rates = get_current_lrs();
        for (double &rate : rates) {
            rate *= 0.9;
        }
        return rates;
    }

    int calls = 0;
};

int main(int argc, char **argv) {
    const bool columns = argc > 1 && !std::strcmp(argv[1], "columns");
    torch::manual_seed(3);
    auto inputs = torch::randn({37, 8}), targets = torch::randn({37, 1});
    torch::nn::Linear first(8, 16), second(16, 1);
    std::vector<torch::Tensor> parameters = first->parameters();
    for (auto &parameter : second->parameters()) {
        parameters.push_back(parameter);
    }
    torch::optim::SGD optimizer(parameters, torch::optim::SGDOptions(0.1));
    Halving scheduler(optimizer);
    for (int step = 1; step <= 6; step++) {
        optimizer.zero_grad();
        auto hidden = torch::renorm(torch::tanh(first->forward(inputs)), /*p=*/2, /*dim=*/0, /*maxnorm=*/1.0);
        auto loss = torch::mse_loss(second->forward(hidden), targets);
        loss.backward();
        optimizer.step();
        try {
            scheduler.step();
        } catch (const std::runtime_error &error) {
            std::printf("caught: %s\n", error.what());
        }
        const double rate = static_cast<torch::optim::SGDOptions &>(optimizer.param_groups()[0].options()).lr();
        std::printf("step %d loss %.6f rate %.6f\n", step, loss.item<double>(), rate);
    }
    torch::NoGradGuard no_grad;
    if (columns) {
        std::printf("columns %.6f\n", torch::renorm(first->forward(inputs), 2, -1, 0.5).sum().item<double>());
    }
}
