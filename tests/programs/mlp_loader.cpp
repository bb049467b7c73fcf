// A multi-layer perceptron fed by a data loader with two workers; the last batch of an epoch is odd.
//
//   mlp_loader [samples] [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iomanip>
#include <iostream>

#include "dump.h"

class Blobs : public torch::data::datasets::Dataset<Blobs> {
public:
    Blobs(int64_t samples, int64_t features, int64_t classes) {
        targets = torch::randint(classes, {samples}, torch::kLong);
        auto centres = torch::randn({classes, features});
        features_ = centres.index_select(0, targets) + 0.9 * torch::randn({samples, features});
    }

    torch::data::Example<> get(size_t index) override {
        return {features_[index], targets[index]};
    }

    torch::optional<size_t> size() const override {
        return features_.size(0);
    }

private:
    torch::Tensor features_, targets;
};

struct Mlp : torch::nn::Module {
    Mlp(int64_t features, int64_t classes) {
        first = register_module("first", torch::nn::Linear(features, 128));
        second = register_module("second", torch::nn::Linear(128, 64));
        third = register_module("third", torch::nn::Linear(64, classes));
    }

    torch::Tensor forward(torch::Tensor x) {
        x = torch::relu(first->forward(x.reshape({x.size(0), -1})));
        x = torch::dropout(x, /*p=*/0.2, /*train=*/is_training());
        x = torch::relu(second->forward(x));
        return torch::log_softmax(third->forward(x), /*dim=*/1);
    }

    torch::nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
};

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 963;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
    torch::manual_seed(7);

    auto dataset = Blobs(samples, 32, 5).map(torch::data::transforms::Stack<>());
    auto loader = torch::data::make_data_loader<torch::data::samplers::RandomSampler>(
        std::move(dataset), torch::data::DataLoaderOptions().batch_size(64).workers(2));

    auto model = std::make_shared<Mlp>(32, 5);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9).weight_decay(1e-4));

    std::cout << std::fixed << std::setprecision(5);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double running_loss = 0;
        int64_t correct = 0, batch_idx = 0, smallest = samples;
        model->train();
        for (auto &batch : *loader) {
            optimizer.zero_grad();
            auto output = model->forward(batch.data);
            auto loss = torch::nll_loss(output, batch.target);
            loss.backward();
            dump_gradients(*model);
            double norm = torch::nn::utils::clip_grad_norm_(model->parameters(), 1.0);
            optimizer.step();
            running_loss += loss.item<double>() * batch.data.size(0);
            correct += output.argmax(1).eq(batch.target).sum().item<int64_t>();
            smallest = std::min(smallest, batch.data.size(0));
            if (batch_idx++ % 5 == 0) {
                std::cout << "epoch " << epoch << " batch " << batch_idx << " rows " << batch.data.size(0) << " loss " << loss.item<float>()
                          << " norm " << norm << std::endl;
            }
        }
        std::cout << "epoch " << epoch << " loss " << running_loss / samples << " accuracy " << static_cast<double>(correct) / samples
                  << " smallest batch " << smallest << std::endl;
    }
    dump_parameters(*model);
}
