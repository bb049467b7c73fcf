// Gradient accumulation written by hand: four small batches per step, the last group of an epoch incomplete; two parameter groups.
//
//   accumulate [samples] [epochs]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "dump.h"

struct RegressorImpl : torch::nn::Module {
    RegressorImpl() : body(torch::nn::Linear(24, 96), torch::nn::ELU(), torch::nn::Linear(96, 48), torch::nn::ELU()), head(48, 3) {
        register_module("body", body);
        register_module("head", head);
    }

    torch::Tensor forward(const torch::Tensor &x) {
        return head->forward(body->forward(x));
    }

    torch::nn::Sequential body;
    torch::nn::Linear head;
};
TORCH_MODULE(Regressor);

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 500;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 5;
    const int64_t batch_size = 24, accumulation_steps = 4;
    torch::manual_seed(21);

    auto x = torch::rand({samples, 24}) * 2 - 1;
    auto y = torch::sin(x.matmul(torch::randn({24, 3})));

    Regressor model;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(model->body->parameters());
    groups.emplace_back(model->head->parameters());
    torch::optim::SGD optimizer(groups, torch::optim::SGDOptions(0.05).momentum(0.9));
    static_cast<torch::optim::SGDOptions &>(optimizer.param_groups()[1].options()).lr(0.01).weight_decay(1e-3);

    torch::nn::MSELoss criterion;
    const int64_t batches = (samples + batch_size - 1) / batch_size;
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double epoch_loss = 0;
        int64_t steps = 0;
        optimizer.zero_grad();
        for (int64_t i = 0; i < batches; i++) {
            auto input = x.slice(0, i * batch_size, (i + 1) * batch_size), target = y.slice(0, i * batch_size, (i + 1) * batch_size);
            auto loss = criterion(model->forward(input), target) / accumulation_steps;
            loss.backward();
            epoch_loss += loss.item<double>() * accumulation_steps * input.size(0);
            if ((i + 1) % accumulation_steps == 0 || i + 1 == batches) {
                dump_gradients(*model);
                auto norm = model->body[0]->as<torch::nn::Linear>()->weight.grad().norm().item<double>();
                optimizer.step();
                optimizer.zero_grad();
                steps++;
                std::printf("epoch %d step %ld gradient norm %.5f\n", epoch, steps, norm);
            }
        }
        std::printf("epoch %d: %ld batches, %ld steps, loss %.5f\n", epoch, batches, steps, epoch_loss / samples);
        if (epoch == 3) { // a schedule by hand
            for (auto &group : optimizer.param_groups()) {
                auto &options = static_cast<torch::optim::SGDOptions &>(group.options());
                options.lr(options.lr() * 0.5);
            }
        }
    }
    dump_parameters(*model);
}
