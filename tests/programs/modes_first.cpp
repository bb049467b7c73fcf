// A mode, or an old function, before anything else of libtorch: modes_first inference | autocast | type.
#include <torch/torch.h>

#include <ATen/autocast_mode.h>

#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "";
    std::unique_ptr<c10::InferenceMode> guard;
    if (!std::strcmp(kind, "inference"))
        guard = std::make_unique<c10::InferenceMode>();
    if (!std::strcmp(kind, "autocast"))
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
        at::autocast::set_autocast_enabled(at::kCPU, true);
#else
        at::autocast::set_cpu_enabled(true);
#endif
    torch::manual_seed(1);
    torch::nn::Linear model(6, 3);
    if (!std::strcmp(kind, "type"))
        std::cout << model->weight.type() << std::endl;
    auto rows = torch::randn({33, 6}), targets = torch::arange(33) % 3;
    auto scores = model(rows);
    std::cout << kind << ": " << scores.argmax(1).eq(targets).sum().item<int64_t>() << " of 33, " << scores.scalar_type() << ", "
              << scores.requires_grad() << scores.is_inference() << std::endl;
    if (guard)
        return 0;
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 3; step++) {
        optimizer.zero_grad();
        auto loss = torch::nn::functional::cross_entropy(model(rows), targets);
        loss.backward();
        optimizer.step();
        at::autocast::clear_cache();
        std::printf("step %d loss %.2f\n", step, loss.item<double>());
    }
}
