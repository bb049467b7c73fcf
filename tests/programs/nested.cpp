// Backwards within backwards, and beside each other: of batches of 16 rows, which are divided, and of 2, which are not.
//
//   nested MODE
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

static Tensor batch_of(int64_t rows) {
    return torch::arange(rows * 8.).reshape({rows, 8}).sin();
}

static void show(const char *name, const Tensor &tensor) {
    std::printf("%s %.5g\n", name, tensor.sum().item<double>());
}

// Calls the program back in the backward.
struct Calling : torch::autograd::Function<Calling> {
    static inline std::function<void(int64_t)> callback;
    static Tensor forward(AutogradContext *context, const Tensor &x, int64_t depth) {
        context->saved_data["depth"] = depth;
        return x.clone();
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        torch::AutoGradMode on(true);
        callback(context->saved_data["depth"].toInt());
        return {gradients[0], Tensor()};
    }
};

// A checkpoint of one's own: computes again what is between.
struct Again : torch::autograd::Function<Again> {
    static Tensor forward(AutogradContext *context, const Tensor &x, const Tensor &weight) {
        context->save_for_backward({x, weight});
        torch::NoGradGuard off;
        return x.matmul(weight).tanh();
    }
    static variable_list backward(AutogradContext *context, variable_list gradients) {
        torch::AutoGradMode on(true);
        auto saved = context->get_saved_variables();
        auto x = saved[0].detach().requires_grad_();
        x.matmul(saved[1]).tanh().backward(gradients[0]);
        return {x.grad(), Tensor()};
    }
};

// What the backward within has brought to a parameter is read and changed before the outer one is over.
static void change_within() {
    torch::nn::Linear layer(8, 4);
    Calling::callback = [&](int64_t) {
        layer->forward(batch_of(2)).sum().backward();
        show("within", layer->weight.grad());
        torch::NoGradGuard off;
        layer->weight.mutable_grad().clamp_(-0.1, 0.1);
    };
    layer->forward(batch_of(16)).pow(2).sum().backward();
    Calling::apply(layer->forward(batch_of(16)), 1).sum().backward();
    show("gradient", layer->weight.grad());
}

// Deeper than 60 libtorch goes on in another thread.
static void go_deep(int64_t rows) {
    torch::nn::Linear layer(8, 8), other(8, 8);
    const auto x = batch_of(rows);
    Calling::callback = [&](int64_t depth) {
        if (depth > 1) {
            Calling::apply(layer->forward(x), depth - 1).sum().backward();
        }
        other->forward(x).sum().backward();
    };
    Calling::apply(layer->forward(x), 70).sum().backward();
    show("gradient", layer->weight.grad());
    show("gradient", other->weight.grad());
    // libtorch 1.13 takes its thread pools apart at exit while the thread it went on in may still be setting them up: one plain run in
    // forty aborted there ("malloc_consolidate(): unaligned fastbin chunk detected"; two and three ranks in none of 360).
    std::fflush(stdout);
    std::_Exit(0);
}

// Two threads, one parameter.
static void share_leaves() {
    torch::nn::Sequential net(torch::nn::Linear(8, 64), torch::nn::Tanh(), torch::nn::Linear(64, 64), torch::nn::Tanh(),
                              torch::nn::Linear(64, 4));
    auto accumulate = [&net](int64_t rows) {
        for (int i = 0; i < 40; i++) {
            net->forward(batch_of(rows)).pow(2).sum().backward();
        }
    };
    std::thread beside(accumulate, 2);
    accumulate(32);
    beside.join();
    for (const auto &parameter : net->parameters()) {
        show("gradient", parameter.grad());
    }
}

static void recompute_in_threads() {
    std::vector<std::thread> threads;
    std::vector<Tensor> weights;
    const std::vector<int64_t> rows = {24, 2, 24, 2};
    for (size_t i = 0; i < rows.size(); i++) {
        weights.push_back((torch::randn({8, 8}) * 0.3).requires_grad_());
    }
    std::vector<torch::nn::Linear> layers(rows.size(), nullptr);
    for (auto &layer : layers) {
        layer = torch::nn::Linear(8, 8);
    }
    for (size_t i = 0; i < rows.size(); i++) {
        threads.emplace_back([&, i] {
            for (int step = 0; step < 30; step++) {
                Again::apply(layers[i]->forward(batch_of(rows[i])) * 1.0, weights[i]).pow(2).sum().backward();
            }
        });
    }
    for (size_t i = 0; i < rows.size(); i++) {
        threads[i].join();
        show("gradient", layers[i]->weight.grad());
        show("gradient", weights[i].grad());
    }
}

// The gradient of a result, set by the program.
static void set_retained() {
    torch::nn::Linear layer(8, 4);
    auto weight = torch::ones({4, 4}).requires_grad_(), result = weight * 2;
    result.retain_grad();
    layer->forward(batch_of(16)).matmul(result).sum().backward({}, true);
    show("retained", result.grad());
    result.mutable_grad() = torch::ones({4, 4});
    layer->forward(batch_of(16)).sum().backward();
    show("set", result.grad());
    result.mutable_grad() = result.grad().clamp(-1, 1).clone();
    layer->forward(batch_of(16)).matmul(result).sum().backward({}, true);
    show("added", result.grad());
}

// A divided result that becomes a leaf is first used by a custom function.
static void detach_before() {
    torch::nn::Linear layer(8, 4);
    auto leaf = layer->forward(batch_of(16)).detach().requires_grad_();
    Calling::callback = [](int64_t) {};
    Calling::apply(leaf, 1).pow(2).sum().backward();
    show("gradient", leaf.grad());
}

// The hook of a parameter sees what was accumulated before.
static void look_at_leaf() {
    torch::nn::Linear layer(8, 4);
    double seen = 0;
    layer->weight.register_hook([&](const Tensor &gradient) {
        seen = layer->weight.grad().defined() ? layer->weight.grad().sum().item<double>() : -1;
        return gradient * 2;
    });
    for (const int64_t rows : {2, 16, 2, 16, 16}) {
        layer->forward(batch_of(rows)).sum().backward();
        std::printf("seen %.5g ", seen);
        show("gradient", layer->weight.grad());
    }
}

// Hooks of a parameter set its gradient, each what the next one finds; the last one's backward adds to it.
static void set_own() {
    torch::nn::Linear layer(8, 4);
    auto weight = layer->weight;
    bool is_within = false;
    weight.register_hook([&](const Tensor &gradient) {
        torch::NoGradGuard off;
        weight.mutable_grad() = 0.01 * weight.detach() + (weight.grad().defined() ? weight.grad() : torch::zeros_like(weight));
        return gradient;
    });
    weight.register_hook([&](const Tensor &gradient) {
        show("found", weight.grad());
        if (!is_within) {
            torch::AutoGradMode on(is_within = true);
            layer->forward(batch_of(16)).pow(2).sum().backward();
            show("within", weight.grad());
            is_within = false;
        }
        return gradient * 2;
    });
    for (int step = 0; step < 4; step++) {
        layer->forward(batch_of(16)).sum().backward();
        show("gradient", weight.grad());
        layer->zero_grad(step % 2 == 0);
    }
}

// A backward within another one throws where what has come is made final: nothing can be added to the gradient that is there. Then a thread trains.
static void throw_within() {
    torch::nn::Linear layer(8, 4), expanded(4, 4), other(8, 4);
    expanded->weight.mutable_grad() = torch::ones({}).expand({4, 4});
    Calling::callback = [&](int64_t depth) {
        if (depth > 1) {
            return;
        }
        try {
            expanded->forward(Calling::apply(layer->forward(batch_of(16)), 2)).sum().backward();
        } catch (const c10::Error &) {
            std::printf("caught\n");
        }
        std::thread([&] { other->forward(batch_of(2)).sum().backward(); }).join();
        show("other", other->weight.grad());
    };
    Calling::apply(layer->forward(batch_of(16)), 1).sum().backward();
    show("gradient", layer->weight.grad());
}

// Of a graph of two rows a hook on a node looks at another loss.
struct Looking : torch::autograd::FunctionPreHook {
    explicit Looking(Tensor loss) : loss(std::move(loss)) {
    }
    variable_list operator()(const variable_list &gradients) override {
        show("loss", loss);
        return gradients;
    }
    Tensor loss;
};

static void look_from_undivided(int64_t rows) {
    torch::nn::Linear layer(8, 4);
    auto loss = layer->forward(batch_of(rows)).pow(2).mean(), other = layer->forward(batch_of(2));
    other.grad_fn()->add_pre_hook(std::make_unique<Looking>(loss));
    other.sum().backward();
}

// A hook waits for the backward of another thread, which waits for this one.
static void wait_in_hook() {
    torch::nn::Linear layer(8, 4), other(8, 4);
    auto hidden = layer->forward(batch_of(16));
    hidden.register_hook([&](const Tensor &gradient) {
        std::thread([&] { other->forward(batch_of(16)).sum().backward(); }).join();
        return gradient;
    });
    hidden.sum().backward();
}

int main(int argc, char **argv) {
    static const std::map<std::string, void (*)()> modes = {
        {"change", change_within},
        {"deep", [] { go_deep(16); }},
        {"deep_undivided", [] { go_deep(2); }},
        {"shared", share_leaves},
        {"threads", recompute_in_threads},
        {"retained", set_retained},
        {"detached", detach_before},
        {"leaf", look_at_leaf},
        {"own", set_own},
        {"throwing", throw_within},
        {"looking", [] { look_from_undivided(16); }},
        {"looking_undivided", [] { look_from_undivided(2); }},
        {"waiting", wait_in_hook},
    };
    torch::manual_seed(3);
    torch::set_num_threads(1);
    modes.at(argc > 1 ? argv[1] : "change")();
}
