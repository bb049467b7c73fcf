// Training without a data loader: a random permutation, slices of the data, tensors printed and read element by element.
//
//   index_loop [samples] [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "dump.h"

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 600;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 4;
    const int64_t batch = 50;
    torch::manual_seed(3);

    auto inputs = torch::randn({samples, 20});
    auto labels = inputs.matmul(torch::randn({20, 4})).argmax(1);
    torch::nn::Sequential model(torch::nn::Linear(20, 64), torch::nn::Tanh(), torch::nn::Linear(64, 4));
    torch::optim::SGD optimizer(model->parameters(), /*lr=*/0.2);

    for (int epoch = 0; epoch < epochs; epoch++) {
        auto order = torch::randperm(samples, torch::kLong);
        float total = 0;
        torch::Tensor accuracy = torch::zeros({1});
        for (int64_t i = 0; i < samples; i += batch) {
            auto index = order.slice(0, i, std::min(i + batch, samples));
            auto x = inputs.index_select(0, index), y = labels.index({index});
            auto out = model->forward(x);
            auto loss = torch::nn::functional::cross_entropy(out, y);
            optimizer.zero_grad();
            loss.backward();
            dump_gradients(*model);
            optimizer.step();
            total += loss.item().toFloat() * x.size(0);
            accuracy += (out.argmax(1) == y).to(torch::kFloat).mean() * (static_cast<double>(out.size(0)) / samples);
        }
        std::cout << "epoch " << epoch << " loss " << total / samples << " accuracy\n" << accuracy << std::endl;
    }

    // A look at the first rows, printed whole and element by element.
    auto out = model->forward(inputs.slice(0, 0, 6));
    std::cout << out << "\n" << out.sizes() << std::endl;
    auto rows = out.accessor<float, 2>();
    for (int64_t i = 0; i < rows.size(0); i++) {
        std::cout << "row " << i << " first " << rows[i][0] << " last " << rows[i][3] << " label " << labels[i].item<int64_t>()
                  << std::endl;
    }
    // One epoch in file order, walking over the data by slices.
    double walked = 0;
    for (int64_t start = 0; start < samples; start += 128) {
        auto x = inputs.slice(0, start, start + 128), y = labels.slice(0, start, start + 128);
        auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        walked += loss.item<double>() * y.numel();
    }
    std::cout << "in order: " << walked / samples << std::endl;
    dump_parameters(*model);
}
