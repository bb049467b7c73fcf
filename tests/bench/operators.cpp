// What an operator costs, in nanoseconds, on tensors so small that the kernel's work is nothing: on a parameter, on what becomes a divided tensor in
// ranks, on a tensor of neither kind. Run plainly and in a rank; the difference is what accel-run adds.
//
//   operators [device]
#include <chrono>
#include <cstdio>
#include <torch/torch.h>

namespace {
template <typename Body> void cost(const char *name, Body body) {
    double best = 1e9;
    for (int block = 0; block < 200; block++) {
        auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < 200; i++)
            body();
        auto taken = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / 200;
        best = taken < best ? taken : best;
    }
    std::printf("%s %.1f\n", name, best);
}
} // namespace

int main(int argc, char **argv) {
    const torch::Device device(argc > 1 ? argv[1] : "cpu");
    torch::manual_seed(1);
    torch::set_num_threads(1);
    torch::nn::Linear layer(8, 8);
    layer->to(device);
    torch::Tensor weight = layer->weight, batch = torch::randn({16, 8}, device), labels = torch::zeros({16, 8}, device);
    torch::Tensor rows = layer(batch).detach(), plain = torch::randn({16, 8}, device);
    torch::NoGradGuard off;
    cost("neither: x + y", [&] { return plain + labels; });
    cost("divided: relu", [&] { return rows.relu(); });
    cost("divided: x + x", [&] { return rows + rows; });
    cost("divided: x * 2", [&] { return rows * 2; });
    cost("divided: x + y, y whole", [&] { return rows + plain; });
    cost("divided: mul_", [&] { rows.mul_(1); });
    cost("divided: view", [&] { return rows.view({16, 2, 4}); });
    cost("divided: transpose", [&] { return rows.t(); });
    cost("divided: detach", [&] { return rows.detach(); });
    cost("divided: size", [&] { return rows.size(0); });
    cost("divided: linear", [&] { return torch::linear(rows, weight, layer->bias); });
    cost("divided: sum", [&] { return rows.sum(); });
    cost("parameter: detach", [&] { return weight.detach(); });
    cost("parameter: t", [&] { return weight.t(); });
    cost("parameter: x * 2", [&] { return weight * 2; });
    cost("parameter: mul_", [&] { weight.mul_(1); });
    cost("parameter: size", [&] { return weight.size(0); });
}
