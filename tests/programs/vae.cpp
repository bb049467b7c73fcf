// A variational autoencoder: summed reconstruction loss plus summed Kullback-Leibler divergence, noise drawn inside the model.
//
//   vae [samples] [epochs]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "dump.h"

struct Output {
    torch::Tensor reconstruction, mean, log_variance;
};

class VaeImpl : public torch::nn::Module {
public:
    VaeImpl() : encode(100, 64), mean(64, 8), log_variance(64, 8), decode(8, 64), image(64, 100) {
        register_module("encode", encode);
        register_module("mean", mean);
        register_module("log_variance", log_variance);
        register_module("decode", decode);
        register_module("image", image);
    }

    torch::Tensor decoded(torch::Tensor z) {
        return torch::sigmoid(image->forward(torch::relu(decode->forward(z))));
    }

    Output forward(torch::Tensor x) {
        auto hidden = torch::relu(encode->forward(x));
        auto mu = mean->forward(hidden), log_var = log_variance->forward(hidden);
        auto z = mu;
        if (is_training()) {
            auto deviation = log_var.mul(0.5).exp();
            z = mu + deviation * torch::randn_like(deviation);
        }
        return {decoded(z), mu, log_var};
    }

private:
    torch::nn::Linear encode, mean, log_variance, decode, image;
};
TORCH_MODULE(Vae);

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 1000;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 4;
    const int64_t batch = 64;
    torch::manual_seed(2);

    // Pictures of one bright bar in a 10x10 field.
    auto rows = torch::randint(10, {samples}, torch::kLong);
    auto pictures =
        (torch::one_hot(rows, 10).to(torch::kFloat).unsqueeze(2).expand({samples, 10, 10}) * 0.9).clamp(0.05).reshape({-1, 100});

    Vae model;
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(2e-3));
    for (int epoch = 1; epoch <= epochs; epoch++) {
        model->train();
        auto order = torch::randperm(samples);
        double train_loss = 0;
        for (int64_t i = 0, step = 0; i < samples; i += batch, step++) {
            auto x = pictures.index_select(0, order.slice(0, i, i + batch));
            auto output = model->forward(x);
            auto reconstruction = torch::binary_cross_entropy(output.reconstruction, x, /*weight=*/{}, torch::Reduction::Sum);
            auto divergence = -0.5 * torch::sum(1 + output.log_variance - output.mean.pow(2) - output.log_variance.exp());
            auto loss = reconstruction + divergence;
            optimizer.zero_grad();
            loss.backward();
            dump_gradients(*model);
            optimizer.step();
            train_loss += loss.item<double>();
            if (step % 8 == 0) {
                std::printf("Epoch [%d/%d], Step [%ld/%ld], Reconst Loss: %.4f, KL Div: %.4f\n", epoch, epochs, step + 1,
                            (samples + batch - 1) / batch, reconstruction.item<double>() / x.size(0),
                            divergence.item<double>() / x.size(0));
            }
        }
        std::printf("====> Epoch: %d Average loss: %.4f\n", epoch, train_loss / samples);
    }
    model->eval();
    torch::NoGradGuard no_grad;
    auto drawn = model->decoded(torch::randn({16, 8}));
    std::cout << "samples " << drawn.sizes() << " mean " << drawn.mean().item<float>() << " brightest " << drawn.max().item<float>()
              << std::endl;
    dump_parameters(*model);
}
