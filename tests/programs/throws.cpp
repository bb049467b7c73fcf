// Exceptions of libtorch, caught by the program, which goes on training; or, with "fatal", thrown out of main in step 5.
//
//   throws [fatal]
#include <torch/torch.h>

#include <iomanip>
#include <iostream>
#include <stdexcept>
#include <string>

#include "dump.h"

int main(int argc, char **argv) {
    const bool fatal = argc > 1 && std::string(argv[1]) == "fatal";
    torch::manual_seed(17);
    auto x = torch::randn({320, 16});
    auto y = x.pow(2).sum(1, /*keepdim=*/true).sqrt();

    torch::nn::Sequential model(torch::nn::Linear(16, 48), torch::nn::ReLU(), torch::nn::Linear(48, 1));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
    int caught = 0;
    std::cout << std::fixed << std::setprecision(5);

    for (int step = 1; step <= 30; step++) {
        const int64_t first = (step - 1) % 8 * 40;
        auto input = x.slice(0, first, first + 40), target = y.slice(0, first, first + 40);
        auto output = model->forward(input);

        // A shape that does not fit: inside the network, and of its output.
        if (step % 3 == 0) {
            try {
                model->forward(input.slice(1, 0, 15));
                std::cout << "step " << step << ": a wrong shape went through" << std::endl;
            } catch (const c10::Error &error) {
                caught++;
            }
            try {
                output.matmul(torch::ones({7, 2}));
                std::cout << "step " << step << ": a wrong product went through" << std::endl;
            } catch (const std::exception &error) {
                caught++;
            }
        }
        if (fatal && step == 5) {
            throw std::runtime_error("the data of step 5 are damaged");
        }

        auto loss = torch::mse_loss(output, target);
        optimizer.zero_grad();
        loss.backward();
        dump_gradients(*model);

        // The graph is gone: a second backward must throw, and must leave the gradients as they are.
        if (step % 4 == 0) {
            try {
                loss.backward();
                std::cout << "step " << step << ": a freed graph was used again" << std::endl;
            } catch (const c10::Error &error) {
                caught++;
            }
        }
        optimizer.step();
        std::cout << "step " << step << " loss " << loss.item<float>() << " rows " << output.size(0) << " caught " << caught << std::endl;
    }
    dump_parameters(*model);
}
