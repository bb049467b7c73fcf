// Threads of the program that share a divided tensor: they look at its memory at one time, and write rows of it, each its own.
#include <torch/torch.h>

#include <cstdio>
#include <functional>
#include <future>
#include <thread>
#include <vector>

static constexpr int64_t THREADS = 4, ROWS = 24, EACH = ROWS / THREADS;

static void in_threads(const std::function<void(int64_t)> &work) {
    std::vector<std::thread> threads;
    for (int64_t k = 0; k < THREADS; k++)
        threads.emplace_back(work, k);
    for (auto &thread : threads)
        thread.join();
}

static void show(const char *what, const torch::Tensor &rows) {
    std::printf("%s", what);
    for (int64_t k = 0; k < THREADS; k++)
        std::printf(" %.4f", rows.slice(0, k * EACH, (k + 1) * EACH).sum().item<float>());
    std::printf("\n");
}

static double count_class(const torch::Tensor &predicted, int64_t which) {
    auto all = predicted.accessor<int64_t, 1>();
    double count = 0;
    for (int64_t i = 0; i < all.size(0); i++)
        count += all[i] == which;
    return count;
}

static void look(const torch::Tensor &outputs, const torch::Tensor &loss) {
    std::vector<double> sums(THREADS), losses(THREADS);
    in_threads([&](int64_t k) {
        const float *rows = outputs.data_ptr<float>() + k * EACH * outputs.size(1);
        for (int64_t i = 0; i < EACH * outputs.size(1); i++)
            sums[k] += rows[i];
        losses[k] = *loss.data_ptr<float>() * k;
    });
    auto predicted = outputs.argmax(1);
    std::vector<std::future<double>> counts;
    for (int64_t which = 0; which < 3; which++)
        counts.push_back(std::async(std::launch::async, count_class, predicted, which));
    std::printf("looked");
    for (int64_t k = 0; k < THREADS; k++)
        std::printf(" %.4f %.4f", sums[k], losses[k]);
    for (auto &count : counts)
        std::printf(" %.0f", count.get());
    std::printf("\n");
}

static void write(const torch::Tensor &outputs) {
    auto rows = outputs.clone(), filled = torch::zeros_like(outputs), copied = torch::zeros_like(outputs), pointed = outputs.clone();
    in_threads([&](int64_t k) { rows.slice(0, k * EACH, (k + 1) * EACH).mul_(k + 2); });
    show("scaled", rows);
    in_threads([&](int64_t k) {
        for (int64_t i = k * EACH; i < (k + 1) * EACH; i++)
            filled[i] = k + 1;
    });
    show("filled", filled);
    in_threads([&](int64_t k) {
        copied.slice(0, k * EACH, (k + 1) * EACH).copy_(torch::softmax(outputs.slice(0, k * EACH, (k + 1) * EACH), 1) * (k + 1));
    });
    show("copied", copied);
    in_threads([&](int64_t k) {
        float *own = pointed.data_ptr<float>() + k * EACH * pointed.size(1);
        for (int64_t i = 0; i < EACH * pointed.size(1); i++)
            own[i] = own[i] * 0.5F + k;
    });
    show("pointed", pointed);
}

int main() {
    torch::manual_seed(4);
    torch::nn::Linear model(5, 3);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    auto data = torch::randn({ROWS, 5});
    for (int step = 0; step < 6; step++) {
        optimizer.zero_grad();
        auto outputs = model(data);
        auto loss = outputs.pow(2).mean();
        loss.backward();
        optimizer.step();
        torch::NoGradGuard guard;
        look(outputs.detach(), loss);
        write(outputs.detach());
    }
}
