// A generative adversarial network: two networks, two Adams, three backward calls in a step.
//
//   gan [samples] [epochs] [batchnorm]
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>

#include "dump.h"

static const int64_t noise_size = 16, points = 32;

static torch::nn::Sequential make_generator(bool normalise) {
    torch::nn::Sequential generator(torch::nn::Linear(noise_size, 64));
    if (normalise) {
        generator->push_back(torch::nn::BatchNorm1d(64));
    }
    generator->push_back(torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2)));
    generator->push_back(torch::nn::Linear(64, points));
    generator->push_back(torch::nn::Tanh());
    return generator;
}

static torch::nn::Sequential make_discriminator() {
    return torch::nn::Sequential(torch::nn::Linear(points, 64),
                                 torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2).inplace(true)),
                                 torch::nn::Dropout(0.1), torch::nn::Linear(64, 1), torch::nn::Sigmoid());
}

int main(int argc, char **argv) {
    const int64_t samples = argc > 1 ? std::atol(argv[1]) : 500;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
    const int64_t batch_size = 50;
    torch::manual_seed(9);

    auto phase = torch::rand({samples, 1}) * 6.28;
    auto waves = torch::sin(phase + torch::linspace(0, 6.28, points)); // (samples, points)

    auto generator = make_generator(argc > 3);
    auto discriminator = make_discriminator();
    torch::optim::Adam generator_optimizer(generator->parameters(), torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.999)));
    torch::optim::Adam discriminator_optimizer(discriminator->parameters(),
                                               torch::optim::AdamOptions(2e-4).betas(std::make_tuple(0.5, 0.999)));

    for (int epoch = 1; epoch <= epochs; epoch++) {
        for (int64_t i = 0, batch_index = 0; i < samples; i += batch_size, batch_index++) {
            auto real_images = waves.slice(0, i, i + batch_size);

            // Train the discriminator with real, then with generated curves.
            discriminator->zero_grad();
            auto real_labels = torch::empty(real_images.size(0)).uniform_(0.8, 1.0);
            auto real_output = discriminator->forward(real_images); // (B, 1) against (B): this function takes them as equal
            auto d_loss_real = torch::binary_cross_entropy(real_output, real_labels);
            d_loss_real.backward();

            auto noise = torch::randn({real_images.size(0), noise_size});
            auto fake_images = generator->forward(noise);
            auto fake_labels = torch::zeros(real_images.size(0));
            auto fake_output = discriminator->forward(fake_images.detach()).reshape(fake_labels.sizes());
            auto d_loss_fake = torch::binary_cross_entropy(fake_output, fake_labels);
            d_loss_fake.backward();
            auto d_loss = d_loss_real + d_loss_fake;
            dump_gradients(*discriminator, "discriminator");
            discriminator_optimizer.step();

            // Train the generator.
            generator->zero_grad();
            fake_labels.fill_(1);
            fake_output = discriminator->forward(fake_images);
            auto g_loss = torch::binary_cross_entropy(fake_output, fake_labels);
            g_loss.backward();
            dump_gradients(*generator, "generator");
            generator_optimizer.step();

            if (batch_index % 5 == 4) {
                std::printf("[%2d/%2d][%3ld/%3ld] D_loss: %.4f | G_loss: %.4f | D(x): %.4f | D(G(z)): %.4f\n", epoch, epochs,
                            batch_index + 1, samples / batch_size, d_loss.item<float>(), g_loss.item<float>(),
                            real_output.mean().item<float>(), fake_output.mean().item<float>());
            }
        }
    }
    generator->eval();
    auto drawn = generator->forward(torch::randn({10, noise_size}));
    std::printf("drawn %ld curves, deviation %.4f\n", drawn.size(0), drawn.std().item<float>());
    dump_parameters(*generator, "generator");
    dump_parameters(*discriminator, "discriminator");
}
