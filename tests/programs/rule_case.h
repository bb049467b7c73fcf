/*
 * For programs that show what single operators do: each case prints its result as one figure, the gradients it leaves in the layers, in
 * the modules under test and in what these were given as others, the modules' buffers, and the next random number. Options: --from NAME,
 * --skip NAME,NAME..., --announce (cases named on stderr before they run): a case that is stopped ends the program, so tests/sweep goes on
 * after it.
 */
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

struct Layers : torch::nn::Module {
    Layers() {
        flat = register_module("flat", torch::nn::Linear(8, 12));
        other = register_module("other", torch::nn::Linear(8, 12));
        scores = register_module("scores", torch::nn::Linear(8, 6));
        image = register_module("image", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1)));
        embedding = register_module("embedding", torch::nn::Embedding(10, 8));
        table = register_parameter("table", torch::randn({10, 5}));
    }
    torch::nn::Linear flat{nullptr}, other{nullptr}, scores{nullptr};
    torch::nn::Conv2d image{nullptr};
    torch::nn::Embedding embedding{nullptr};
    torch::Tensor table;
    torch::nn::Module tested;
    torch::Tensor given; /* to what is under test */

    /* A module that is what the case is about: a temporary, and its gradients, would be gone when they are printed. */
    template <typename Module> Module under_test(Module module) {
        keep(module.ptr());
        return module;
    }
    void keep(const std::shared_ptr<torch::nn::Module> &module) {
        tested.register_module(std::to_string(tested.children().size()), module);
    }

    __attribute__((noinline)) torch::Tensor own(torch::IntArrayRef sizes) { /* a parameter for a function */
        return tested.register_parameter("own" + std::to_string(tested.parameters(false).size()), torch::randn(sizes) * 0.3);
    }

    /* Its gradient is printed where the rows are even in number. Else nobody looks at it, as in most programs: the ranks do less then. */
    torch::Tensor seen(const torch::Tensor &h) {
        if (h.size(0) % 2 == 0) {
            h.retain_grad();
            given = h;
        }
        return h;
    }
};

struct Batch {
    explicit Batch(int64_t rows) : rows(rows) {
        flat = torch::randn({rows, 8});
        pictures = torch::randn({rows, 3, 6, 6});
        series = torch::randn({rows, 5, 8});
        noise = torch::randn({rows, 12});
        target = torch::randint(6, {rows}, torch::kLong);
        tokens = torch::randint(10, {rows, 5}, torch::kLong);
        mask = torch::rand({rows, 12}) > 0.5;
    }
    int64_t rows;
    torch::Tensor flat, pictures, series, noise, target, tokens, mask;
    std::string reduction;
};

/* Constants and pointers to functions: strings and std::function, of hundreds of cases, take a compiler three seconds more. */
struct Case {
    const char *name;
    torch::Tensor (*function)(Layers &, Batch &);
    const char *reduction = ""; /* of a loss */
};
using Cases = std::vector<Case>;

__attribute__((noinline)) inline torch::Tensor flat_of(Layers &m, Batch &t) {
    return m.seen(m.flat(t.flat));
}

__attribute__((noinline)) inline torch::Tensor image_of(Layers &m, Batch &t) {
    return m.seen(m.image(t.pictures));
}

__attribute__((noinline)) inline torch::Tensor scores_of(Layers &m, Batch &t) {
    return m.seen(m.scores(t.flat));
}

__attribute__((noinline)) inline torch::Tensor series_of(Layers &m, Batch &t) {
    return m.seen(m.flat(t.series));
}

#define COLD __attribute__((cold)) /* a compiler takes a tenth less time for it */

/* Cases of what a layer made, h, each NAME, EXPRESSION; PLAIN: of the batch itself, which what is under test meets first. */
#define CASE(name, made, ...)                                                                                                              \
    {#name, [](Layers &m, Batch &t) COLD {                                                                                                 \
         torch::Tensor h = made;                                                                                                           \
         return __VA_ARGS__;                                                                                                               \
     }},
#define FLAT(name, ...) CASE(name, flat_of(m, t), __VA_ARGS__)
#define IMAGE(name, ...) CASE(name, image_of(m, t), __VA_ARGS__)
#define SCORES(name, ...) CASE(name, scores_of(m, t), __VA_ARGS__)
#define SERIES(name, ...) CASE(name, series_of(m, t), __VA_ARGS__)
#define PLAIN(name, ...) {#name, [](Layers &m, Batch &t) COLD { return __VA_ARGS__; }},

/* One figure of any result, with weights that tell elements apart. */
inline torch::Tensor weigh(const torch::Tensor &result) {
    torch::Tensor values = result.to(torch::kDouble);
    torch::Tensor weights = torch::cos(torch::arange(values.numel(), torch::kDouble) * 0.7) + 0.3;
    return (values * weights.view(values.sizes())).sum();
}

/* As text: an infinity that hides all other elements is told with what it hides, each that is no number as one. */
inline std::string figure(const torch::Tensor &result, double own) {
    char text[80];
    if (std::isfinite(own)) {
        std::snprintf(text, sizeof text, "%.6g", own);
    } else {
        std::snprintf(text, sizeof text, "%.6g and %.6g", own,
                      weigh(result.detach().to(torch::kDouble).nan_to_num(3.3, 7.7, -5.1)).item<double>());
    }
    return text;
}

using Named = std::vector<std::pair<std::string, torch::Tensor>>;

inline Named gradients_of(const torch::nn::Module &module) {
    Named gradients;
    for (const auto &parameter : module.named_parameters()) {
        if (parameter.value().grad().defined()) {
            gradients.emplace_back(parameter.key(), parameter.value().grad());
        }
    }
    return gradients;
}

inline void print_gradients(const char *whose, const Named &gradients) {
    double total = 1e-3;
    for (const auto &[name, gradient] : gradients) {
        total = std::hypot(total, gradient.norm().item<double>());
    }
    std::printf(" %s %.6g", whose, total);
    for (const auto &[name, gradient] : gradients) { /* relative to all: one that is zero but for rounding must not count */
        std::printf(" %s %.6g %s", name.c_str(), gradient.norm().item<double>() / total,
                    figure(gradient, weigh(gradient).item<double>() / total).c_str());
    }
}

inline void print_tested(const Layers &layers) {
    if (Named gradients = gradients_of(layers.tested); !gradients.empty()) {
        print_gradients("tested", gradients);
    }
    if (layers.given.defined() && layers.given.grad().defined()) {
        print_gradients("given", {{"h", layers.given.grad()}});
    }
    for (const auto &buffer : layers.tested.named_buffers()) {
        std::printf(" buffer %s %s", buffer.key().c_str(), figure(buffer.value(), weigh(buffer.value()).item<double>()).c_str());
    }
}

inline void run_case(const std::string &name, const Case &some, int64_t rows) {
    torch::manual_seed(static_cast<uint64_t>(name.size() * 100) + static_cast<uint64_t>(rows));
    Layers layers;
    Batch batch(rows);
    batch.reduction = some.reduction;
    try {
        torch::Tensor result = some.function(layers, batch);
        torch::Tensor loss = weigh(result);
        std::printf("%s %ld [", name.c_str(), static_cast<long>(rows));
        for (int64_t size : result.sizes()) {
            std::printf("%ld,", static_cast<long>(size));
        }
        std::printf("] %s", figure(result, loss.item<double>()).c_str());
        if (loss.requires_grad()) {
            loss.backward();
            print_gradients("gradients", gradients_of(layers));
        }
        print_tested(layers);
        std::printf(" next %.6g\n", torch::rand({}).item<double>());
    } catch (const std::exception &error) {
        std::string text = error.what();
        std::printf("%s %ld exception %s\n", name.c_str(), static_cast<long>(rows), text.substr(0, text.find('\n')).substr(0, 70).c_str());
    }
    std::fflush(stdout);
}

inline int run_cases(const Cases &cases, int count, char **words) {
    std::string from, skip;
    bool announce = false;
    for (int i = 1; i < count; i++) {
        std::string word = words[i];
        announce |= word == "--announce";
        if (word == "--from" && i + 1 < count) {
            from = words[i + 1];
        }
        if (word == "--skip" && i + 1 < count) {
            skip = std::string(",") + words[i + 1] + ",";
        }
    }
    bool begun = from.empty();
    for (const Case &some : cases) {
        std::string name = std::string(some.name) + some.reduction;
        begun |= name == from;
        if (!begun || skip.find("," + name + ",") != std::string::npos) {
            continue;
        }
        for (int64_t rows : {16, 7}) {
            if (announce) {
                std::fprintf(stderr, "case %s %ld\n", name.c_str(), static_cast<long>(rows));
            }
            run_case(name, some, rows);
        }
    }
    return 0;
}
