/*
 * For the rule_*.cpp programs: many small cases of single operators, each run on tensors that accel-run divides, printed so that
 * tests/compare sees a relative difference: a tensor's values are divided by its largest one. The programs know nothing of us either: a
 * batch that meets a parameter is divided.
 */
#pragma once

#include <torch/torch.h>

#include <cstdio>
#include <string>

inline void show(const std::string &name, const torch::Tensor &tensor) {
    if (!tensor.defined()) {
        std::printf("%s undefined\n", name.c_str());
        return;
    }
    torch::NoGradGuard no_grad;
    torch::Tensor values = tensor.detach().to(torch::kDouble).contiguous();
    double largest = values.numel() ? values.abs().max().item<double>() : 0.0;
    std::printf("%s grad %d largest %.7e :", name.c_str(), (int)tensor.requires_grad(), largest);
    for (int64_t size : values.sizes()) {
        std::printf(" %d", (int)size);
    }
    std::printf(" :");
    const double *value = values.data_ptr<double>();
    for (int64_t i = 0; i < values.numel(); i++) {
        std::printf(" %.7f", largest > 0 ? value[i] / largest : value[i]);
    }
    std::printf("\n");
}

/* Numbers that depend on nothing but their count: no draw from the stream that is under test. */
inline torch::Tensor wave(torch::IntArrayRef sizes, double step = 0.7, double centre = 0.1) {
    int64_t count = 1;
    for (int64_t size : sizes) {
        count *= size;
    }
    torch::Tensor numbers = torch::arange(count, torch::kDouble);
    return ((numbers * step).sin() + (numbers * numbers * 0.013).cos() * 0.5 + centre).to(torch::kFloat).view(sizes);
}

inline torch::Tensor parameter(torch::IntArrayRef sizes, double step = 0.3, double centre = 0.1) {
    return wave(sizes, step, centre).requires_grad_();
}

/* A divided tensor of the given sizes that depends on two parameters: `mix` meets the batch, `own` has its shape, so own.grad() is the
   tensor's gradient. */
struct Divided {
    torch::Tensor mix, own;

    explicit Divided(torch::IntArrayRef sizes, torch::ScalarType type = torch::kFloat) {
        mix = wave({sizes.back(), sizes.back()}, 0.41, 0.0).to(type).requires_grad_();
        own = wave(sizes, 0.9, 0.3).to(type).requires_grad_();
    }
    torch::Tensor operator()(double step = 0.7) const {
        return torch::linear(wave(own.sizes(), step).to(own.scalar_type()), mix) + own;
    }
    void show_gradients(const std::string &name) {
        show(name + " mix.grad", mix.grad());
        show(name + " own.grad", own.grad());
        mix.mutable_grad() = torch::Tensor();
        own.mutable_grad() = torch::Tensor();
    }
};

/* A loss that gives every element of the tensor a gradient of its own. */
inline torch::Tensor loss_of(const torch::Tensor &tensor) {
    return (tensor * wave(tensor.sizes(), 0.37, 0.2).to(tensor.scalar_type())).sum() + 0.5 * tensor.pow(2).mean();
}
