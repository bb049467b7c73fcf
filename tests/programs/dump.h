/*
 * Lets a test look at gradients and parameters without printing them: when ACCEL_TEST_DUMP names a file, each process writes the
 * gradients of its first step and its final parameters and buffers to $ACCEL_TEST_DUMP.<pid>. Nothing happens when it is unset. This is
 * the only thing in these programs that a program from a tutorial would not have.
 *
 * One tensor per line: kind, name, sizes (2x3, scalar or undefined), then the values as hexadecimal floats, so that equal text means
 * equal bits. tests/compare --dump reads it.
 */
#pragma once

#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>

inline FILE *dump_file() {
    static FILE *file = nullptr;
    const char *stem = std::getenv("ACCEL_TEST_DUMP");
    if (stem && !file) {
        file = std::fopen((std::string(stem) + "." + std::to_string(getpid())).c_str(), "w");
    }
    return stem ? file : nullptr;
}

/* Writes a line at once: main() may dump one model's parameters while a thread dumps the gradients of its own. */
inline void dump_tensor(const char *kind, const std::string &name, const torch::Tensor &tensor) {
    FILE *file = dump_file();
    if (!file) {
        return;
    }
    std::string line = std::string(kind) + " " + name + " ";
    if (!tensor.defined()) {
        line += "undefined";
    } else {
        torch::NoGradGuard no_grad;
        torch::Tensor values = tensor.detach().to(torch::kDouble).contiguous();
        std::string sizes;
        for (int64_t size : values.sizes()) {
            sizes += (sizes.empty() ? "" : "x") + std::to_string(size);
        }
        line += sizes.empty() ? "scalar" : sizes;
        const double *value = values.data_ptr<double>();
        char text[40];
        for (int64_t i = 0; i < values.numel(); i++) {
            std::snprintf(text, sizeof text, " %a", value[i]);
            line += text;
        }
    }
    line += "\n";
    std::fwrite(line.data(), 1, line.size(), file);
    std::fflush(file);
}

/* Call between backward() and step(), every step: only the first call for a tag (a model's name) writes. */
inline void dump_gradients(const torch::nn::Module &model, const std::string &tag = "model") {
    static std::set<std::string> written;
    static std::mutex mutex; /* threads may train models of their own; gradients are whole, so nothing in here needs other ranks */
    std::lock_guard<std::mutex> lock(mutex);
    if (!dump_file() || !written.insert(tag).second) {
        return;
    }
    for (const auto &parameter : model.named_parameters()) {
        dump_tensor("gradient", tag + "." + parameter.key(), parameter.value().grad());
    }
}

/* Call once at the end of the program. */
inline void dump_parameters(const torch::nn::Module &model, const std::string &tag = "model") {
    if (!dump_file()) {
        return;
    }
    for (const auto &parameter : model.named_parameters()) {
        dump_tensor("parameter", tag + "." + parameter.key(), parameter.value());
    }
    for (const auto &buffer : model.named_buffers()) {
        dump_tensor("buffer", tag + "." + buffer.key(), buffer.value());
    }
}
