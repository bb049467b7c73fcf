// Four things trained side by side: two networks, each with its own optimizer behind a base-class pointer, and bare tensors made with
// requires_grad, of which some are updated in place by hand, the others by an optimizer.
//
//   multi_model [samples] [epochs]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <memory>

#include "dump.h"

#if __has_include(<torch/optim/schedulers/reduce_on_plateau_scheduler.h>) /* since 2.0; torch.h has it since 2.2 */
#define SCHEDULER
#include <torch/optim/schedulers/reduce_on_plateau_scheduler.h>
#endif

struct Tower : torch::nn::Module {
    Tower(int64_t in, int64_t width, int64_t out) : first(in, width), second(width, out) {
        register_module("first", first);
        register_module("second", second);
    }

    torch::Tensor forward(const torch::Tensor &x) {
        return second(torch::tanh(first(x)));
    }

    torch::nn::Linear first, second;
};

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 360;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 5;
    const int64_t batch = 45;
    torch::manual_seed(23);

    auto x = torch::randn({samples, 12});
    auto y = torch::cos(x.matmul(torch::randn({12, 2})));

    auto student = std::make_shared<Tower>(12, 48, 2), critic = std::make_shared<Tower>(14, 32, 1);
    std::unique_ptr<torch::optim::Optimizer> student_optimizer =
        std::make_unique<torch::optim::SGD>(student->parameters(), torch::optim::SGDOptions(0.05));
    std::unique_ptr<torch::optim::Optimizer> critic_optimizer =
        std::make_unique<torch::optim::RMSprop>(critic->parameters(), torch::optim::RMSpropOptions(1e-3));
#ifdef SCHEDULER
    torch::optim::ReduceLROnPlateauScheduler scheduler(*critic_optimizer, torch::optim::ReduceLROnPlateauScheduler::min, 0.5f, 0, 0.2);
#endif
    // A linear model by hand, and one by Adagrad.
    auto weight = torch::randn({12, 2}, torch::requires_grad());
    auto bias = torch::zeros({2}, torch::dtype(torch::kFloat).requires_grad(true));
    auto slope = torch::randn({12, 2}, torch::requires_grad()), offset = torch::zeros({2}, torch::requires_grad());
    torch::optim::Adagrad adagrad({slope, offset}, torch::optim::AdagradOptions(0.1).lr_decay(1e-2).weight_decay(1e-3));

    for (int epoch = 1; epoch <= epochs; epoch++) {
        double student_sum = 0, critic_sum = 0, linear_sum = 0, adagrad_sum = 0;
        for (int64_t i = 0; i < samples; i += batch) {
            auto xb = x.slice(0, i, i + batch), yb = y.slice(0, i, i + batch);

            auto guess = student->forward(xb);
            auto student_loss = torch::mse_loss(guess, yb);
            student_optimizer->zero_grad();
            student_loss.backward();
            dump_gradients(*student, "student");
            student_optimizer->step();

            // The critic learns to tell how wrong the student is.
            auto error = (guess.detach() - yb).abs().sum(1);
            auto judged = critic->forward(torch::cat({xb, guess.detach()}, 1)).squeeze(1);
            auto critic_loss = torch::l1_loss(judged, error);
            critic_optimizer->zero_grad();
            critic_loss.backward();
            dump_gradients(*critic, "critic");
            critic_optimizer->step();

            auto linear_loss = torch::mse_loss(torch::addmm(bias, xb, weight), yb);
            linear_loss.backward();
            {
                torch::NoGradGuard no_grad;
                weight -= 0.1 * weight.grad();
                bias -= 0.1 * bias.grad();
                weight.mutable_grad().zero_();
                bias.mutable_grad().zero_();
            }
            auto adagrad_loss = torch::mse_loss(torch::addmm(offset, xb, slope), yb);
            adagrad.zero_grad();
            adagrad_loss.backward();
            adagrad.step();

            student_sum += student_loss.item<double>() * xb.size(0);
            critic_sum += critic_loss.item<double>() * xb.size(0);
            linear_sum += linear_loss.item<double>() * xb.size(0);
            adagrad_sum += adagrad_loss.item<double>() * xb.size(0);
        }
        std::printf("epoch %d student %.5f critic %.5f linear %.5f adagrad %.5f\n", epoch, student_sum / samples, critic_sum / samples,
                    linear_sum / samples, adagrad_sum / samples);
#ifdef SCHEDULER
        scheduler.step(static_cast<float>(critic_sum / samples));
        std::printf("rate of the critic %g\n", critic_optimizer->param_groups()[0].options().get_lr());
#endif
    }
    std::printf("weight %.5f bias %.5f %.5f\n", weight.norm().item<double>(), bias[0].item<double>(), bias[1].item<double>());
    dump_parameters(*student, "student");
    dump_parameters(*critic, "critic");
    dump_tensor("parameter", "linear.weight", weight);
    dump_tensor("parameter", "linear.bias", bias);
    dump_tensor("parameter", "adagrad.slope", slope);
    dump_tensor("parameter", "adagrad.offset", offset);
}
