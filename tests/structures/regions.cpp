// Parallel regions of the program's own, which use a batch, and of kernels. Compiled with OpenMP.
//   regions alone     threads of a region ask for sizes and take views
//   regions number    and for a number
//   regions beside    while another thread trains
//   regions kernels   two threads train with kernels that slice their tensors in regions (OMP_NUM_THREADS above 1)
// Not all of torch/torch.h, which is compiled for nothing else in this way.
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <iostream>
#include <string>
#include <thread>

static std::string mode;

// Of a batch of 12 rows of 3.
static int64_t count_wrong(const torch::Tensor &batch) {
    int64_t wrong = 0;
#pragma omp parallel for num_threads(2) reduction(+ : wrong)
    for (int i = 0; i < 200; i++)
        wrong += batch.size(0) != 12 || batch.select(1, i % 3).numel() != 12 || (mode == "number" && batch[i % 12][0].item<float>() > 100);
    return wrong;
}

template <typename Model> static double train(Model model, const torch::Tensor &batch, int steps) {
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    double last = 0;
    for (int step = 0; step < steps; step++) {
        optimizer.zero_grad();
        auto loss = model->forward(batch).tanh().pow(2).mean();
        loss.backward();
        optimizer.step();
        last = loss.template item<double>();
    }
    return last;
}

static void kernels() {
    torch::nn::Conv2d models[2] = {nullptr, nullptr};
    for (auto &model : models) {
        model = torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 3).dilation(2));
        model->to(torch::kFloat64);
    }
    auto batch = torch::randn({24, 4, 9, 9}, torch::kFloat64);
    double beside = 0;
    std::thread other([&] { beside = train(models[0], batch, 20); });
    double here = train(models[1], batch, 20);
    other.join();
    std::cout << "kernels " << beside << " " << here << std::endl;
}

int main(int argc, char **argv) {
    mode = argc > 1 ? argv[1] : "alone";
    torch::manual_seed(1);
    if (mode == "kernels") {
        kernels();
        return 0;
    }
    torch::nn::Linear model(4, 3);
    torch::nn::Sequential wide(torch::nn::Linear(600, 600), torch::nn::Tanh(), torch::nn::Linear(600, 600));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    std::thread other;
    if (mode == "beside")
        other = std::thread([&] { train(wide, torch::ones({240, 600}), 100); });
    int64_t wrong = 0;
    for (int step = 0; step < 50; step++) {
        auto hidden = model->forward(torch::randn({12, 4}));
        wrong += count_wrong(hidden.detach());
        auto loss = hidden.pow(2).mean();
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        if (step % 10 == 0)
            std::cout << step << " " << loss.item<double>() << std::endl;
    }
    if (other.joinable())
        other.join();
    std::cout << "wrong " << wrong << std::endl;
}
