/*
 * For programs that show what single operators do: each case prints its result as one figure, the gradients it leaves in the layers as
 * others, and the next random number. Options: --from NAME, --skip NAME,NAME..., --announce (cases named on stderr before they run): a
 * case that is stopped ends the program, so tests/sweep goes on after it.
 */
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <functional>
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
};

using Case = std::function<torch::Tensor(Layers &, Batch &)>;
using Cases = std::vector<std::pair<std::string, Case>>;

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

inline void print_gradients(Layers &layers) {
    double total = 1e-3;
    for (const auto &parameter : layers.named_parameters()) {
        if (parameter.value().grad().defined()) {
            total = std::hypot(total, parameter.value().grad().norm().item<double>());
        }
    }
    std::printf(" gradients %.6g", total);
    for (const auto &parameter : layers.named_parameters()) { /* relative to all: one that is zero but for rounding must not count */
        const torch::Tensor &gradient = parameter.value().grad();
        if (gradient.defined()) {
            std::printf(" %s %.6g %s", parameter.key().c_str(), gradient.norm().item<double>() / total,
                        figure(gradient, weigh(gradient).item<double>() / total).c_str());
        }
    }
}

inline void run_case(const std::string &name, const Case &function, int64_t rows) {
    torch::manual_seed(static_cast<uint64_t>(name.size() * 100) + static_cast<uint64_t>(rows));
    Layers layers;
    Batch batch(rows);
    try {
        torch::Tensor result = function(layers, batch);
        torch::Tensor loss = weigh(result);
        std::printf("%s %ld [", name.c_str(), static_cast<long>(rows));
        for (int64_t size : result.sizes()) {
            std::printf("%ld,", static_cast<long>(size));
        }
        std::printf("] %s", figure(result, loss.item<double>()).c_str());
        if (loss.requires_grad()) {
            loss.backward();
            print_gradients(layers);
        }
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
    for (const auto &[name, function] : cases) {
        begun |= name == from;
        if (!begun || skip.find("," + name + ",") != std::string::npos) {
            continue;
        }
        for (int64_t rows : {16, 7}) {
            if (announce) {
                std::fprintf(stderr, "case %s %ld\n", name.c_str(), static_cast<long>(rows));
            }
            run_case(name, function, rows);
        }
    }
    return 0;
}
