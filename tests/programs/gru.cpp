// A language model with a two-layer GRU: batch first, hidden state carried from batch to batch, gradients clipped.
//
//   gru [tokens] [epochs] [device]
#include <torch/torch.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <tuple>

#include "dump.h"

static const int64_t vocabulary = 60, batch_size = 16, sequence = 20;

struct LanguageModelImpl : torch::nn::Module {
    LanguageModelImpl() {
        embedding = register_module("embedding", torch::nn::Embedding(vocabulary, 48));
        gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(48, 96).num_layers(2).batch_first(true)));
        head = register_module("head", torch::nn::Linear(96, vocabulary));
    }

    std::tuple<torch::Tensor, torch::Tensor> forward(torch::Tensor tokens, torch::Tensor hidden) {
        torch::Tensor out, next;
        std::tie(out, next) = gru->forward(embedding->forward(tokens), hidden);
        out = out.reshape({out.size(0) * out.size(1), out.size(2)});
        return std::make_tuple(head->forward(out), next);
    }

    torch::nn::Embedding embedding{nullptr};
    torch::nn::GRU gru{nullptr};
    torch::nn::Linear head{nullptr};
};
TORCH_MODULE(LanguageModel);

// A text of sorts: each token follows from the two before it, with some noise.
static torch::Tensor make_text(int64_t length) {
    auto noise = torch::randint(0, 100, {length}, torch::kLong);
    auto text = torch::zeros({length}, torch::kLong);
    auto dice = noise.accessor<int64_t, 1>();
    auto token = text.accessor<int64_t, 1>();
    for (int64_t i = 2; i < length; i++) {
        token[i] = dice[i] < 20 ? dice[i] : (3 * token[i - 1] + token[i - 2] + 7) % vocabulary;
    }
    return text;
}

int main(int argc, char **argv) {
    const int64_t length = argc > 1 ? std::atol(argv[1]) : 16 * 20 * 15 + 16;
    const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
    const torch::Device device(argc > 3 ? argv[3] : "cpu");
    torch::manual_seed(11);

    auto text = make_text(length);
    const int64_t per_row = length / batch_size;
    auto ids = text.slice(0, 0, per_row * batch_size).reshape({batch_size, -1}).to(device);

    LanguageModel model;
    model->to(device);
    torch::nn::CrossEntropyLoss criterion;
    torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(4e-3));

    for (int epoch = 1; epoch <= epochs; epoch++) {
        auto hidden = torch::zeros({2, batch_size, 96}, device);
        int64_t step = 0;
        double running = 0;
        for (int64_t i = 0; i + sequence < ids.size(1); i += sequence, step++) {
            auto inputs = ids.narrow(1, i, sequence), targets = ids.narrow(1, i + 1, sequence);
            hidden = hidden.detach();
            torch::Tensor output;
            std::tie(output, hidden) = model->forward(inputs, hidden);
            auto loss = criterion(output, targets.reshape(-1));
            model->zero_grad();
            loss.backward();
            dump_gradients(*model);
            torch::nn::utils::clip_grad_norm_(model->parameters(), 0.5);
            optimizer.step();
            running += loss.item<double>();
            if (step % 5 == 0) {
                std::printf("Epoch [%d/%d], Step[%ld], Loss: %.4f, Perplexity: %.3f, Logits: %ld x %ld\n", epoch, epochs, step,
                            loss.item<double>(), std::exp(loss.item<double>()), output.size(0), output.size(1));
            }
        }
        std::printf("Epoch [%d/%d] mean loss %.4f hidden norm %.4f\n", epoch, epochs, running / step, hidden.norm().item<double>());
    }

    // Generate a few tokens greedily.
    torch::NoGradGuard no_grad;
    auto token = torch::full({1, 1}, 5, torch::TensorOptions(device).dtype(torch::kLong));
    auto hidden = torch::zeros({2, 1, 96}, device);
    std::printf("generated:");
    for (int i = 0; i < 10; i++) {
        torch::Tensor output;
        std::tie(output, hidden) = model->forward(token, hidden);
        token = output.argmax(1, /*keepdim=*/true);
        std::printf(" %ld", token.item<int64_t>());
    }
    std::printf("\n");
    dump_parameters(*model);
}
