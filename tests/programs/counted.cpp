// Asks how many accelerators there are before it makes a model, which it trains on the host.
//
//   counted LIBRARY     of tests/fake/accelerator.cpp
#include <torch/torch.h>

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <cstdio>
#include <dlfcn.h>

int main(int argc, char **argv) {
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL)) {
        std::fprintf(stderr, "no library: %s\n", argc < 2 ? "" : dlerror());
        return 1;
    }
    std::printf("accelerators: %d\n", static_cast<int>(c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->deviceCount()));
    torch::manual_seed(3);
    torch::nn::Linear model(6, 3);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 4; step++) {
        auto loss = model(torch::randn({14, 6})).square().mean();
        optimizer.zero_grad();
        loss.backward();
        optimizer.step();
        std::printf("step %d loss %.5f\n", step, loss.item<double>());
    }
}
