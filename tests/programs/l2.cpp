// A penalty on the parameters added to the loss, a layer that is never used, and one that is frozen first and trained later.
//
//   l2 [samples] [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string>

#include "dump.h"

struct NetImpl : torch::nn::Module {
    NetImpl() {
        features = register_module("features", torch::nn::Linear(30, 64));
        unused = register_module("unused", torch::nn::Linear(64, 64));
        output = register_module("output", torch::nn::Linear(64, 1));
        scale = register_parameter("scale", torch::ones({1}));
    }

    torch::Tensor forward(torch::Tensor x) {
        return output->forward(torch::gelu(features->forward(x))).squeeze(1) * scale;
    }

    torch::nn::Linear features{nullptr}, unused{nullptr}, output{nullptr};
    torch::Tensor scale;
};
TORCH_MODULE(Net);

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 470;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 6;
    const int64_t batch = 60;
    const double lambda = 1e-3;
    torch::manual_seed(13);

    auto x = torch::randn({samples, 30});
    auto y = (x.slice(1, 0, 10).sum(1) > 0).to(torch::kFloat);

    Net net;
    for (auto &parameter : net->features->parameters()) {
        parameter.set_requires_grad(false);
    }
    torch::optim::Adam optimizer(net->parameters(), torch::optim::AdamOptions(5e-3));

    std::cout << std::setprecision(5) << std::fixed;
    for (int epoch = 0; epoch < epochs; epoch++) {
        if (epoch == epochs / 2) {
            for (auto &parameter : net->features->parameters()) {
                parameter.set_requires_grad(true);
            }
            std::cout << "features are trained from now on" << std::endl;
        }
        double data_loss = 0, penalty_loss = 0;
        int64_t right = 0;
        auto order = torch::randperm(samples);
        for (int64_t i = 0; i < samples; i += batch) {
            auto index = order.slice(0, i, i + batch);
            auto xb = x.index_select(0, index), yb = y.index_select(0, index);
            auto logits = net->forward(xb);
            auto loss = torch::binary_cross_entropy_with_logits(logits, yb);
            auto penalty = torch::zeros({});
            for (const auto &parameter : net->named_parameters()) {
                if (parameter.key().find("unused") == std::string::npos) {
                    penalty = penalty + parameter.value().pow(2).sum();
                }
            }
            auto total = loss + lambda * penalty;
            optimizer.zero_grad();
            total.backward();
            dump_gradients(*net);
            optimizer.step();
            data_loss += loss.item<double>() * xb.size(0);
            penalty_loss = penalty.item<double>();
            right += ((logits > 0).to(torch::kFloat) == yb).sum().item<int64_t>();
        }
        std::cout << "epoch " << epoch << " loss " << data_loss / samples << " penalty " << penalty_loss << " right " << right << "/"
                  << samples << std::endl;
    }
    std::cout << "the unused layer " << (net->unused->weight.grad().defined() ? "has" : "has no") << " gradient, scale "
              << net->scale.item<double>() << std::endl;
    dump_parameters(*net);
}
