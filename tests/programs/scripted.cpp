/* Trains a TorchScript module: from its second run on libtorch would differentiate an optimised graph of it by itself. */
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <thread>

using torch::Tensor;

static const char *source = R"(
def forward(self, x):
    h = torch.relu(torch.linear(x, self.first, self.bias))
    if bool(h.sum() > 0):
        h = h * 1.1
    for i in range(2):
        h = torch.tanh(h) + h.mean() - h.mean(0)
    return torch.linear(h, self.second), x.size(0)
)";

static std::vector<Tensor> parameters_of(const torch::jit::Module &module) {
    std::vector<Tensor> parameters;
    for (const Tensor &parameter : module.parameters()) {
        parameters.push_back(parameter);
    }
    return parameters;
}

static void train(torch::jit::Module &module, const Tensor &images, const Tensor &targets) {
    torch::optim::SGD optimizer(parameters_of(module), 0.1);
    for (int step = 0; step < 6; step++) {
        int64_t from = step % 4 * 8;
        auto results = module.forward({images.slice(0, from, from + 8)}).toTuple();
        Tensor loss = torch::nn::functional::cross_entropy(results->elements()[0].toTensor(), targets.slice(0, from, from + 8));
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        printf("step %d rows %d loss %.5f\n", step, static_cast<int>(results->elements()[1].toInt()), loss.item<double>());
    }
    for (const Tensor &parameter : parameters_of(module)) {
        printf("parameter %.5f\n", parameter.abs().sum().item<double>());
    }
}

int main() {
    torch::manual_seed(4);
    torch::jit::Module module("module");
    module.register_parameter("first", torch::randn({8, 5}).mul_(0.4).requires_grad_(), false);
    module.register_parameter("bias", torch::zeros({8}).requires_grad_(), false);
    module.register_parameter("second", torch::randn({3, 8}).mul_(0.4).requires_grad_(), false);
    module.define(source);
    Tensor images = torch::randn({29, 5}), targets = torch::arange(29) % 3;
    train(module, images, targets);
    module.save("module.pt");
    torch::jit::Module saved = torch::jit::load("module.pt");
    std::thread([&] { /* where the executor of before, which asks for no profile, is what the program wants */
        torch::jit::setGraphExecutorOptimize(true);
        torch::jit::getExecutorMode() = false;
        train(saved, images, targets);
    }).join();
    torch::jit::getProfilingMode() = true;
    saved = torch::jit::load("module.pt");
    saved.eval();
    saved = torch::jit::freeze(saved);
    torch::NoGradGuard no_grad;
    for (int i = 0; i < 3; i++) {
        printf("frozen %.5f\n", saved.forward({images}).toTuple()->elements()[0].toTensor().abs().sum().item<double>());
    }
}
