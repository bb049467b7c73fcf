// A convolutional classifier on Fashion-MNIST.
//
//   fashion [data folder] [epochs] [training images] [model file] [device]
//
// The data folder holds the four uncompressed idx files (train-images-idx3-ubyte, ...).
#include <torch/torch.h>

#include <cstdio>
#include <string>

#include "dump.h"
#include "work.h"

struct NetImpl : torch::nn::Module {
    NetImpl()
        : conv1(torch::nn::Conv2dOptions(1, 32, 3)), conv2(torch::nn::Conv2dOptions(32, 64, 3)), dropout1(0.25), fc1(64 * 5 * 5, 128),
          dropout2(0.5), fc2(128, 10) {
        register_module("conv1", conv1);
        register_module("conv2", conv2);
        register_module("dropout1", dropout1);
        register_module("fc1", fc1);
        register_module("dropout2", dropout2);
        register_module("fc2", fc2);
    }

    torch::Tensor forward(torch::Tensor x) {
        x = torch::max_pool2d(torch::relu(conv1->forward(x)), 2);
        x = torch::max_pool2d(torch::relu(conv2->forward(x)), 2);
        x = dropout1->forward(x);
        x = x.view({-1, 64 * 5 * 5});
        x = dropout2->forward(torch::relu(fc1->forward(x)));
        return torch::log_softmax(fc2->forward(x), /*dim=*/1);
    }

    torch::nn::Conv2d conv1, conv2;
    torch::nn::Dropout dropout1;
    torch::nn::Linear fc1;
    torch::nn::Dropout dropout2;
    torch::nn::Linear fc2;
};
TORCH_MODULE(Net);

template <typename Loader> void train(int epoch, Net &model, Loader &loader, torch::optim::Optimizer &optimizer, size_t images, torch::Device device) {
    model->train();
    size_t batch_index = 0, seen = 0;
    double running_loss = 0.0;
    int64_t correct = 0;
    for (auto &batch : loader) {
        auto data = batch.data.to(device), targets = batch.target.to(device);
        optimizer.zero_grad();
        auto output = model->forward(data);
        auto loss = torch::nll_loss(output, targets);
        loss.backward();
        dump_gradients(*model);
        optimizer.step();
        running_loss += loss.template item<double>() * data.size(0);
        correct += output.argmax(1).eq(targets).sum().template item<int64_t>();
        seen += data.size(0);
        if (++batch_index % 10 == 0) {
            std::printf("Train Epoch: %d [%5zu/%5zu] Loss: %.4f Accuracy: %.4f\n", epoch, batch_index * data.size(0), images,
                        running_loss / seen, static_cast<double>(correct) / seen);
            std::fflush(stdout);
        }
    }
}

template <typename Loader> void test(Net &model, Loader &loader, size_t images, torch::Device device) {
    torch::NoGradGuard no_grad;
    model->eval();
    double loss = 0.0;
    int64_t correct = 0;
    for (const auto &batch : loader) {
        auto targets = batch.target.to(device), output = model->forward(batch.data.to(device));
        loss += torch::nll_loss(output, targets, /*weight=*/{}, torch::Reduction::Sum).template item<double>();
        correct += output.argmax(1).eq(targets).sum().template item<int64_t>();
    }
    std::printf("Test set: Average loss: %.4f | Accuracy: %.4f (%lld/%zu)\n", loss / images, static_cast<double>(correct) / images,
                static_cast<long long>(correct), images);
}

int main(int argc, char **argv) {
    const std::string folder = argc > 1 ? argv[1] : "./data";
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 1;
    const size_t limit = argc > 3 ? std::atoi(argv[3]) : 60000;
    const std::string file = argc > 4 ? argv[4] : "";
    const torch::Device device(argc > 5 ? argv[5] : "cpu");

    torch::manual_seed(1);
    Net model;
    model->to(device);
    using torch::data::datasets::MNIST;
    auto train_set = MNIST(folder).map(torch::data::transforms::Normalize<>(0.2860, 0.3530)).map(torch::data::transforms::Stack<>());
    const size_t train_images = std::min(limit, train_set.size().value());
    auto train_loader = torch::data::make_data_loader(std::move(train_set), torch::data::samplers::RandomSampler(train_images), 64);
    auto test_set =
        MNIST(folder, MNIST::Mode::kTest).map(torch::data::transforms::Normalize<>(0.2860, 0.3530)).map(torch::data::transforms::Stack<>());
    const size_t test_images = std::min(limit, test_set.size().value());
    auto test_loader = torch::data::make_data_loader(std::move(test_set), torch::data::samplers::SequentialSampler(test_images), 500);

    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(1e-3));
    torch::optim::StepLR scheduler(optimizer, /*step_size=*/1, /*gamma=*/0.7);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        train(epoch, model, *train_loader, optimizer, train_images, device);
        scheduler.step();
        test(model, *test_loader, test_images, device);
    }
    if (!file.empty()) {
        torch::save(model, file);
    }
    dump_parameters(*model);
}
