/* Code of a program that autograd calls back: custom functions and hooks on tensors. What it is shown is printed. */
#include <torch/torch.h>

#include <cstdio>
#include <cstring>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

static void show(const char *name, const Tensor &tensor) {
    printf("%s (%d dimensions, %d) %.5f %.5f\n", name, static_cast<int>(tensor.dim()), static_cast<int>(tensor.numel()),
           tensor.to(torch::kDouble).norm().item<double>(), tensor.reshape({-1})[-1].item<double>());
}

/* The gradient is scaled to norm one over the batch and clipped: not linear in a part of the rows. */
struct Clipped : torch::autograd::Function<Clipped> {
    static Tensor forward(AutogradContext *context, Tensor x, Tensor weight) {
        show("forward", x);
        context->save_for_backward({x, weight});
        context->saved_data["limit"] = x.abs().max().item<double>() / 20;
        return x.mm(weight).relu();
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        auto saved = context->get_saved_variables();
        double limit = context->saved_data["limit"].toDouble();
        show("backward", gradients[0]);
        Tensor gradient = gradients[0] / gradients[0].norm() * (saved[0].mm(saved[1]) > 0);
        gradient = gradient.clamp(-limit, limit);
        return {gradient.mm(saved[1].t()), saved[0].t().mm(gradient)};
    }
};

/* Two results of different shapes, of which one may have no gradient. */
struct Split : torch::autograd::Function<Split> {
    static variable_list forward(AutogradContext *context, Tensor x, double factor) {
        context->saved_data["factor"] = factor;
        return {x * factor, x.mean(0)};
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        double factor = context->saved_data["factor"].toDouble();
        show("rows", gradients[0]);
        show("mean", gradients[1]);
        return {gradients[0] * factor + gradients[1].expand_as(gradients[0]) / gradients[0].size(0), Tensor()};
    }
};

/* Of a parameter alone. */
struct Round : torch::autograd::Function<Round> {
    static Tensor forward(AutogradContext *context, Tensor weight) {
        return (weight * 8).round() / 8;
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        show("round", gradients[0]);
        return {gradients[0].clamp(-0.02, 0.02)};
    }
};

/* Written and read through pointers, as kernels of programs do: what is returned no operator has touched since. */
struct Kernel : torch::autograd::Function<Kernel> {
    static Tensor forward(AutogradContext *context, Tensor x) {
        context->save_for_backward({x});
        Tensor out = torch::empty_like(x);
        for (int64_t i = 0; i < x.numel(); i++) {
            out.data_ptr<float>()[i] = x.data_ptr<float>()[i] * (1 + 0.01f * static_cast<float>(i));
        }
        return out;
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        Tensor x = context->get_saved_variables()[0], gradient = gradients[0].contiguous(), out = torch::zeros_like(x);
        for (int64_t i = 0; i < x.numel(); i++) {
            out.data_ptr<float>()[i] = gradient.data_ptr<float>()[i] * (1 + 0.01f * static_cast<float>(i));
        }
        return {out};
    }
};

/* A hook that returns nothing and writes to the gradient through its pointer. */
static void triple_last(Tensor gradient) {
    gradient.data_ptr<float>()[gradient.numel() - 1] *= 3;
}

/* A penalty on the gradient with respect to the images: a derivative of a derivative. */
static Tensor penalty(torch::nn::Linear &first, torch::nn::Linear &second, const Tensor &images) {
    Tensor points = images.clone().requires_grad_();
    Tensor scores = second(first(points).tanh());
    Tensor gradient = torch::autograd::grad({scores}, {points}, {torch::ones_like(scores)}, true, true)[0];
    show("gradient", gradient.detach());
    return (gradient.norm(2, 1) - 1).pow(2).mean();
}

/* A normalisation over the batch whose gradient is differentiated again, with a hook that looks at it and one that changes it. */
static void normalised(const Tensor &images) {
    torch::manual_seed(2);
    torch::nn::Linear layer(images.size(1), 8);
    torch::nn::BatchNorm1d norm(8);
    for (bool changes : {false, true}) {
        Tensor result = norm(layer(images));
        result.register_hook([](Tensor gradient) { show("normalised", gradient); });
        if (changes) {
            result.register_hook([](Tensor gradient) { return (gradient * gradient).clamp(-1, 1) + 2 * gradient; });
        }
        Tensor gradient = torch::autograd::grad({(result.tanh() * result).sum()}, {layer->weight}, {}, true, true)[0];
        show("its derivative", gradient);
        show("and again", torch::autograd::grad({gradient.pow(2).sum()}, {layer->weight})[0]);
    }
}

/* What one process refuses must not pass because it has, by chance, as many rows as a rank. */
static void wrong_sizes(torch::nn::Linear &layer, Tensor images) {
    for (int rows = 5; rows <= 23; rows++) {
        Tensor given = torch::ones({rows, 8}), outputs = layer(images), hooked = layer(images);
        hooked.register_hook([given](Tensor) { return given; });
        for (int way = 0; way < 3; way++) {
            layer->zero_grad();
            try {
                if (way == 0) {
                    outputs.backward(given, true);
                } else if (way == 1) {
                    layer->weight.mutable_grad() = torch::autograd::grad({outputs}, {layer->weight}, {given})[0];
                } else {
                    hooked.sum().backward();
                }
                show("taken", layer->weight.grad());
            } catch (const std::exception &error) {
                printf("%d rows refused: %.*s\n", rows, static_cast<int>(strcspn(error.what(), "\n")), error.what());
            }
        }
    }
}

/* The first that this program does with autograd: a leaf that requires a gradient from its making gets a hook before anything else is known of it. */
static void hook_comes_first() {
    torch::manual_seed(3);
    Tensor weight = torch::randn({6, 3}, torch::requires_grad()), images = torch::randn({22, 6});
    weight.register_hook([](Tensor gradient) {
        show("first of all", gradient);
        return gradient.clamp(-0.01, 0.01);
    });
    for (int step = 0; step < 3; step++) {
        images.mm(weight).pow(2).mean().backward();
        show("clamped", weight.grad());
        torch::NoGradGuard no_grad;
        weight.sub_(weight.grad());
        weight.mutable_grad() = Tensor();
    }
}

/* Hooks that return nothing and write to the entries of a sparse gradient: of a table, and of what was computed from it. */
static void sparse_entries() {
    torch::manual_seed(4);
    torch::nn::Embedding table(torch::nn::EmbeddingOptions(40, 6).sparse(true));
    Tensor words = torch::randint(40, {23, 5});
    table->weight.register_hook([](Tensor gradient) {
        show("entries", gradient._values());
        gradient._values().clamp_(-1e-3, 1e-3);
    });
    table->weight.register_hook([](Tensor gradient) { show("clamped entries", gradient._values()); });
    table(words).tanh().pow(2).mean().backward();
    show("clamped table", table->weight.grad().to_dense());
    table->weight.mutable_grad() = Tensor();
    Tensor doubled = table->weight * 2;
    doubled.register_hook([](Tensor gradient) { gradient._values().mul_(100).clamp_(-1e-2, 1e-2); });
    Tensor found = table(words).sum(2).abs().mul(7).to(torch::kLong).flatten() % 40;
    torch::embedding(doubled, found, -1, false, true).tanh().pow(2).mean().backward();
    show("clamped twice", table->weight.grad().to_dense());
}

#if TORCH_VERSION_MAJOR >= 2 && !(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 1)
struct Stepping : torch::autograd::PostAccumulateGradHook {
    double rate;
    explicit Stepping(double rate) : rate(rate) {}
    void operator()(const Tensor &tensor) override {
        show("step", tensor.grad());
        torch::NoGradGuard no_grad;
        Tensor parameter = tensor;
        parameter.sub_(rate * tensor.grad());
    }
};

struct Clipping : torch::autograd::PostAccumulateGradHook {
    void operator()(const Tensor &tensor) override {
        show("clip", tensor.grad());
        tensor.grad().clamp_(-0.01, 0.01);
    }
};

/* Two classes of hooks for gradients that have arrived. */
static void accumulated(const Tensor &images) {
    torch::manual_seed(5);
    torch::nn::Linear layer(6, 3);
    torch::autograd::impl::set_post_acc_grad_hooks(layer->weight, std::make_unique<Stepping>(0.1));
    torch::autograd::impl::set_post_acc_grad_hooks(layer->bias, std::make_unique<Clipping>());
    for (int step = 0; step < 3; step++) {
        layer(images).pow(2).mean().backward();
        show("stepped", layer->weight);
        show("clipped", layer->bias.grad());
        layer->zero_grad();
    }
}
#else
static void accumulated(const Tensor &) {}
#endif

int main() {
    hook_comes_first();
    torch::manual_seed(1);
    Tensor images = torch::randn({23, 6}), targets = torch::arange(23) % 3;
    torch::nn::Linear first(6, 8), second(8, 3);
    std::vector<Tensor> parameters = {first->weight, first->bias, second->weight, second->bias};
    for (int step = 0; step < 6; step++) {
        Tensor hidden = first(images), out;
        if (step % 3 == 0) {
            out = torch::nn::functional::linear(Clipped::apply(hidden, torch::eye(8)), Round::apply(second->weight));
        } else if (step % 3 == 1) {
            variable_list parts = Split::apply(hidden, 1.5);
            Tensor squeezed = Kernel::apply(parts[0].tanh());
            squeezed.register_hook(triple_last);
            out = second(squeezed);
            if (step > 3) {
                out = out + parts[1].sum() * 0.1;
            }
        } else {
            out = second(Clipped::apply(images, first->weight.t()));
            out.register_hook([](Tensor gradient) {
                show("out", gradient);
                return gradient / gradient.norm();
            });
            second->weight.register_hook([](Tensor gradient) { show("weight", gradient); });
        }
        Tensor loss = torch::nn::functional::cross_entropy(out, targets);
        if (step == 4) {
            loss = loss + penalty(first, second, images);
        }
        loss.backward();
        printf("step %d loss %.5f\n", step, loss.item<double>());
        torch::NoGradGuard no_grad;
        for (Tensor &parameter : parameters) {
            if (parameter.grad().defined()) {
                show("parameter", parameter.grad());
                parameter.sub_(0.1 * parameter.grad());
                parameter.mutable_grad() = Tensor();
            }
        }
    }
    sparse_entries();
    accumulated(images);
    normalised(images);
    wrong_sizes(first, images);
}
