// A convolutional autoencoder: strided convolutions down, transposed convolutions up, mean squared error against noisy input.
//
//   autoencoder [samples] [epochs]
#include <torch/torch.h>

#include <cstdlib>
#include <iostream>

#include "dump.h"

struct AutoencoderImpl : torch::nn::Module {
    AutoencoderImpl()
        : encoder(torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 16, 3).stride(2).padding(1)), torch::nn::ReLU(),
                  torch::nn::Conv2d(torch::nn::Conv2dOptions(16, 24, 3).stride(2).padding(1)), torch::nn::ReLU()),
          decoder(torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(24, 16, 3).stride(2).padding(1).output_padding(1)),
                  torch::nn::ReLU(),
                  torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(16, 1, 3).stride(2).padding(1).output_padding(1)),
                  torch::nn::Sigmoid()) {
        register_module("encoder", encoder);
        register_module("decoder", decoder);
    }

    torch::Tensor forward(const torch::Tensor &x) {
        return decoder->forward(encoder->forward(x));
    }

    torch::nn::Sequential encoder, decoder;
};
TORCH_MODULE(Autoencoder);

// Squares of random place and size on a dark ground.
static torch::Tensor make_pictures(int64_t samples) {
    auto pictures = torch::zeros({samples, 1, 20, 20});
    auto places = torch::randint(0, 12, {samples, 2}, torch::kLong);
    auto place = places.accessor<int64_t, 2>();
    for (int64_t i = 0; i < samples; i++) {
        const int64_t size = 4 + i % 5;
        pictures[i][0].slice(0, place[i][0], place[i][0] + size).slice(1, place[i][1], place[i][1] + size).fill_(1.0);
    }
    return pictures;
}

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 400;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 4;
    const int64_t batch = 25;
    torch::manual_seed(31);

    auto pictures = make_pictures(samples);
    Autoencoder model;
    torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(3e-3).weight_decay(1e-2));
    for (int epoch = 1; epoch <= epochs; epoch++) {
        float sum = 0;
        for (int64_t i = 0; i < samples; i += batch) {
            auto clean = pictures.slice(0, i, i + batch);
            auto noisy = (clean + 0.2 * torch::randn_like(clean)).clamp(0, 1);
            auto restored = model->forward(noisy);
            auto loss = torch::mse_loss(restored, clean);
            optimizer.zero_grad();
            loss.backward();
            dump_gradients(*model);
            optimizer.step();
            sum += loss.item<float>() * restored.size(0);
        }
        std::cout << "epoch " << epoch << "/" << epochs << " loss " << sum / samples << std::endl;
    }

    model->eval();
    torch::NoGradGuard no_grad;
    auto restored = model->forward(pictures.slice(0, 0, 8));
    std::cout << "restored " << restored.sizes() << " error " << torch::mse_loss(restored, pictures.slice(0, 0, 8)).item<float>()
              << " brightest " << restored.amax().item<float>() << std::endl;
    dump_parameters(*model);
}
