// Polynomial regression without any seed: fresh random data in every step, until the loss is small enough. No two runs are alike, and a
// run ends when it ends; only the result, rounded, is always the same.
//
//   unseeded [loss to reach]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "dump.h"

static const int degree = 3;

int main(int argc, char **argv) {
    const float goal = argc > 1 ? std::atof(argv[1]) : 1e-4f;
    std::random_device entropy;
    std::mt19937 engine(entropy());
    std::uniform_real_distribution<float> shift(-0.2f, 0.2f);
    std::srand(static_cast<unsigned>(std::time(nullptr)));

    const float truth[degree] = {2.0f, -1.0f, 0.5f};
    auto weights = torch::tensor({truth[0], truth[1], truth[2]}).unsqueeze(1);
    torch::nn::Linear model(degree, 1);
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.5));

    torch::Tensor loss = torch::full({1}, 1e9f);
    long steps = 0;
    while (loss.item<float>() > goal) {
        // A batch: points from torch's generator, moved by the engine's, its size chosen by rand().
        const int64_t rows = 32 + std::rand() % 32;
        auto points = torch::randn({rows}) + shift(engine);
        auto x = torch::stack({points, points.pow(2) - 1, points.pow(3) - 3 * points}, 1) / 2;
        auto y = x.mm(weights) + 1.0;
        auto output = model->forward(x);
        loss = torch::smooth_l1_loss(output, y);
        optimizer.zero_grad();
        loss.backward();
        dump_gradients(*model);
        optimizer.step();
        steps++;
        if (steps % 50 == 0) {
            std::printf("step %ld rows %ld loss %.6f\n", steps, static_cast<long>(x.size(0)), loss.item<float>());
        }
        if (steps > 100000) {
            std::printf("gave up\n");
            return 1;
        }
    }
    auto learned = model->weight.detach().view({-1});
    std::printf("reached the goal after %ld steps: y = %.1f a %+.1f b %+.1f c %+.1f\n", steps, learned[0].item<double>(),
                learned[1].item<double>(), learned[2].item<double>(), model->bias.item<double>());
    dump_parameters(*model);
}
