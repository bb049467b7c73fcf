/* Normalisation over divided rows: batch_norm in all its forms, instance_norm, group_norm, layer_norm. */
#include "cases.h"

struct Running {
    torch::Tensor mean, variance, weight, bias;

    Running(int64_t channels, bool affine, bool tracked, torch::ScalarType type) {
        if (tracked) {
            mean = wave({channels}, 0.2, 0.1).to(type);
            variance = (wave({channels}, 0.3, 0.0).pow(2) + 0.5).to(type);
        }
        if (affine) {
            weight = wave({channels}, 0.5, 0.8).to(type).requires_grad_();
            bias = wave({channels}, 0.6, 0.0).to(type).requires_grad_();
        }
    }
};

static void batch_norm_case(const std::string &name, torch::IntArrayRef sizes, bool affine, bool tracked, bool training,
                            torch::ScalarType type) {
    Divided input(sizes, type);
    Running running(sizes[1], affine, tracked, type);
    for (int step = 0; step < 2; step++) {
        torch::Tensor output = torch::batch_norm(input(0.7 + step), running.weight, running.bias, running.mean, running.variance, training,
                                                 0.1 + 0.2 * step, 1e-5, false);
        torch::Tensor loss = loss_of(torch::relu(output));
        show(name + " output", output);
        show(name + " loss", loss);
        loss.backward();
        input.show_gradients(name);
        if (affine) {
            show(name + " weight.grad", running.weight.grad());
            show(name + " bias.grad", running.bias.grad());
        }
        if (tracked) {
            show(name + " running mean", running.mean);
            show(name + " running variance", running.variance);
        }
    }
}

/* Backward twice, then only towards some leaves: what the hooks keep from one backward must not be used by another. */
static void several_backwards() {
    Divided input({7, 3, 2, 2});
    Running running(3, true, true, torch::kFloat);
    auto run = [&] {
        return torch::batch_norm(input(), running.weight, running.bias, running.mean, running.variance, true, 0.1, 1e-5, false);
    };
    torch::Tensor loss = loss_of(run());
    loss.backward({}, true);
    show("twice, first", input.own.grad());
    loss.backward();
    show("twice, second", input.own.grad());
    show("twice, weight", running.weight.grad());

    torch::Tensor output = run();
    torch::Tensor one = loss_of(output), other = output.pow(3).sum();
    running.weight.mutable_grad() = running.bias.mutable_grad() = input.own.mutable_grad() = torch::Tensor();
    one.backward({}, true, false, std::vector<torch::Tensor>{running.weight, running.bias});
    other.backward({}, true, false, std::vector<torch::Tensor>{input.own});
    show("towards some leaves, weight", running.weight.grad());
    show("towards some leaves, input", input.own.grad());
    one.backward({}, true, false, std::vector<torch::Tensor>{running.weight, input.own});
    show("towards some leaves, weight again", running.weight.grad());
    show("towards some leaves, input again", input.own.grad());

    running.weight.requires_grad_(false);
    input.own.mutable_grad() = torch::Tensor();
    loss_of(run()).backward();
    input.show_gradients("frozen weight");
}

static void in_place_and_residual() {
    Divided input({7, 4, 3});
    Running running(4, true, true, torch::kFloat);
    torch::Tensor x = input();
    torch::Tensor output = torch::batch_norm(x, running.weight, running.bias, running.mean, running.variance, true, 0.1, 1e-5, false);
    output += x;
    output.relu_();
    loss_of(output).backward();
    input.show_gradients("in place");
    show("in place weight", running.weight.grad());
}

/* Statistics far from zero: a sum of squares would lose all digits. */
static void far_from_zero() {
    Divided input({6, 3, 4});
    torch::Tensor x = input() + 1000.0;
    torch::Tensor output = torch::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-5, false);
    std::printf("far from zero: deviation of the output %.2f\n", output.std().item<double>());
}

static void without_gradients() {
    torch::NoGradGuard no_grad;
    Divided input({7, 3, 2});
    Running running(3, true, true, torch::kFloat);
    show("no grad", torch::batch_norm(input(), running.weight, running.bias, running.mean, running.variance, true, 0.1, 1e-5, false));
    show("no grad running", running.variance);
}

/* The modules: momentum none is a cumulative average; evaluation without tracked statistics takes the batch's. */
static void modules() {
    torch::manual_seed(1);
    torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(2, 4, 3).padding(1));
    torch::nn::BatchNorm2d cumulative(torch::nn::BatchNormOptions(4).momentum({})),
        untracked(torch::nn::BatchNormOptions(4).track_running_stats(false));
    torch::optim::SGD optimizer(convolution->parameters(), torch::optim::SGDOptions(0.1));
    for (int step = 0; step < 3; step++) {
        optimizer.zero_grad();
        torch::Tensor hidden = convolution(wave({7 + step, 2, 5, 5}, 0.3 + step));
        torch::Tensor output = untracked(torch::relu(cumulative(hidden)));
        show("modules", output);
        loss_of(output).backward();
        show("modules gradient", convolution->weight.grad());
        optimizer.step();
    }
    cumulative->eval();
    untracked->eval();
    show("modules evaluated", untracked(cumulative(convolution(wave({7, 2, 5, 5})))));
    show("modules running mean", cumulative->running_mean);
    show("modules running variance", cumulative->running_var);
}

static void others(torch::ScalarType type) {
    Divided input({7, 6, 4}, type);
    Running running(6, true, true, type);
    auto finish = [&](const std::string &name, const torch::Tensor &output) {
        show(name, output);
        loss_of(output).backward();
        input.show_gradients(name);
        show(name + " weight", running.weight.grad());
        running.weight.mutable_grad() = torch::Tensor();
        running.bias.mutable_grad() = torch::Tensor();
    };
    finish("group_norm", torch::group_norm(input(), 3, running.weight, running.bias, 1e-5, false));
    finish("instance_norm", torch::instance_norm(input(), running.weight, running.bias, {}, {}, true, 0.1, 1e-5, false));
    finish("instance_norm evaluated",
           torch::instance_norm(input(), running.weight, running.bias, running.mean, running.variance, false, 0.1, 1e-5, false));
    show("instance_norm evaluated, bits of the statistics", running.mean.view(torch::kByte).to(torch::kDouble).cumsum(0));
    show("instance_norm evaluated, bits of the statistics", running.variance.view(torch::kByte).to(torch::kDouble).cumsum(0));
    finish("instance_norm tracked",
           torch::instance_norm(input(), running.weight, running.bias, running.mean, running.variance, true, 0.1, 1e-5, false));
    show("instance_norm running", running.mean);
    torch::Tensor scale = wave({4}, 0.5, 0.8).to(type).requires_grad_();
    torch::Tensor output = torch::layer_norm(input(), {4}, scale, {}, 1e-5, false);
    show("layer_norm", output);
    loss_of(output).backward();
    input.show_gradients("layer_norm");
    show("layer_norm scale", scale.grad());
    output = torch::batch_norm(input().transpose(0, 1).contiguous(), {}, {}, {}, {}, true, 0.1, 1e-5, false);
    show("rows in the channels", output);
    loss_of(output).backward();
    input.show_gradients("rows in the channels");
    output = torch::batch_norm(input().view({42, 4}), {}, {}, {}, {}, true, 0.1, 1e-5, false);
    show("merged rows", output);
    loss_of(output).backward();
    input.show_gradients("merged rows");
    output = torch::batch_norm(input().transpose(1, 2), {}, {}, {}, {}, true, 0.1, 1e-5, false);
    show("channels last", output);
    loss_of(output).backward();
    input.show_gradients("channels last");
}

int main() {
    const std::vector<std::vector<int64_t>> shapes = {{7, 4}, {8, 3, 2}, {7, 3, 2, 3}, {6, 2, 2, 2, 2}, {9, 1, 3}};
    for (torch::ScalarType type : {torch::kFloat, torch::kDouble}) {
        for (const auto &sizes : shapes) {
            for (int form = 0; form < 8; form++) {
                bool affine = form & 1, tracked = form & 2, training = form & 4 || !tracked;
                batch_norm_case("batch_norm " + std::to_string(sizes.size()) + "d form " + std::to_string(form), sizes, affine, tracked,
                                training, type);
            }
        }
        others(type);
    }
    several_backwards();
    in_place_and_residual();
    far_from_zero();
    without_gradients();
    modules();
    return 0;
}
