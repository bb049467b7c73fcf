// Convolutions with batch normalisation over pictures and over features; the running statistics are printed and used in evaluation.
//
//   batchnorm [samples] [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "dump.h"

struct NetImpl : torch::nn::Module {
    NetImpl() {
        conv1 = register_module("conv1", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 16, 3).padding(1).bias(false)));
        norm1 = register_module("norm1", torch::nn::BatchNorm2d(16));
        conv2 = register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 32, 3).stride(2).padding(1).bias(false)));
        norm2 = register_module("norm2", torch::nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(32).momentum(0.2)));
        fc1 = register_module("fc1", torch::nn::Linear(torch::nn::LinearOptions(32, 24).bias(false)));
        norm3 = register_module("norm3", torch::nn::BatchNorm1d(24));
        fc2 = register_module("fc2", torch::nn::Linear(24, 4));
    }

    torch::Tensor forward(torch::Tensor x) {
        x = torch::relu(norm1->forward(conv1->forward(x)));
        x = norm2->forward(conv2->forward(x));
        x.relu_();
        x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
        return fc2->forward(torch::relu(norm3->forward(fc1->forward(x))));
    }

    torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
    torch::nn::BatchNorm2d norm1{nullptr}, norm2{nullptr};
    torch::nn::Linear fc1{nullptr}, fc2{nullptr};
    torch::nn::BatchNorm1d norm3{nullptr};
};
TORCH_MODULE(Net);

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 330;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
    const int64_t batch = 32;
    torch::manual_seed(4);

    auto targets = torch::randint(4, {samples}, torch::kLong);
    auto brightness = targets.to(torch::kFloat).view({-1, 1, 1, 1}) * 0.5;
    auto images = torch::randn({samples, 3, 16, 16}) * (0.5 + brightness) + brightness;

    Net net;
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.02).momentum(0.9).nesterov(true));
    torch::nn::CrossEntropyLoss criterion;
    std::cout << std::fixed << std::setprecision(4);

    for (int epoch = 1; epoch <= epochs; epoch++) {
        net->train();
        double running_loss = 0;
        int64_t correct = 0, total = 0;
        for (int64_t i = 0; i < samples; i += batch) {
            auto x = images.slice(0, i, i + batch), y = targets.slice(0, i, i + batch);
            optimizer.zero_grad();
            auto outputs = net->forward(x);
            auto loss = criterion(outputs, y);
            loss.backward();
            dump_gradients(*net);
            optimizer.step();
            running_loss += loss.item<double>() * x.size(0);
            correct += std::get<1>(outputs.max(1)).eq(y).sum().item<int64_t>();
            total += y.size(0);
        }
        std::cout << "Epoch " << epoch << ": loss " << running_loss / total << ", accuracy " << correct << "/" << total << std::endl;

        torch::NoGradGuard no_grad;
        net->eval();
        auto outputs = net->forward(images.slice(0, 0, 100));
        std::cout << "  evaluation loss " << criterion(outputs, targets.slice(0, 0, 100)).item<double>() << ", batches seen "
                  << net->norm1->num_batches_tracked.item<int64_t>() << std::endl;
    }
    std::cout << "running mean\n" << net->norm1->running_mean << "\nrunning variance\n" << net->norm3->running_var << std::endl;
    dump_parameters(*net);
}
