// Threads of the program that share a divided tensor: they look at its memory at one time, and write rows of it, or columns, or parts, each its own; and threads
// that have models of their own, and look at, write, and have views of, what these make.
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

// Work of two threads on one tensor, again and again: what each of them touches is its own.
static void share(const char *what, const torch::Tensor &outputs, const std::function<void(int64_t, torch::Tensor)> &work) {
    enum { TIMES = 25 };
    double all = 0, column = 0;
    for (int i = 0; i < TIMES; i++) {
        auto rows = outputs.clone();
        std::thread one(work, 0, rows), other(work, 1, rows);
        one.join();
        other.join();
        all += rows.sum().item<double>();
        column += rows.select(1, 1).sum().item<double>();
    }
    std::printf("%s %.3f %.3f\n", what, all, column);
}

static double first_of(const torch::Tensor &rows) {
    return *rows.data_ptr<float>();
}

static void share_all(const torch::Tensor &outputs) {
    share("rows, columns", outputs, [](int64_t k, const torch::Tensor &rows) {
        for (int64_t i = 0; k == 0 && i < ROWS; i++)
            rows[i].select(0, 0).fill_(i);
        if (k == 1)
            rows.select(1, 1).fill_(2).add_(rows.select(1, 2));
    });
    share("parts", outputs, [](int64_t k, const torch::Tensor &rows) {
        auto part = rows.narrow(1, k, k + 1);
        for (int64_t i = 0; i < ROWS; i++)
            part[i].fill_(i + k);
    });
    auto some = torch::arange(3, 20), first = torch::zeros({17}, torch::kLong);
    share("lists of elements, columns", outputs, [&](int64_t k, const torch::Tensor &rows) {
        for (int64_t i = 0; i < 5; i++)
            if (k == 0)
                rows.index_put_({some, first}, torch::full({}, double(i)));
            else
                rows.select(1, 1).fill_(i);
    });
    double seen[2] = {0, 0};
    share("a part that is written, one that is looked at", outputs, [&](int64_t k, const torch::Tensor &rows) {
        if (k == 0)
            rows.narrow(1, 0, 1).mul_(2);
        else
            seen[1] += first_of(rows.narrow(1, 1, 2));
    });
    share("a part of what main() has looked at", outputs, [&](int64_t k, const torch::Tensor &rows) {
        seen[k] += first_of(rows.narrow(1, 1, 2));
    });
    auto looked_at = outputs.clone();
    seen[0] += first_of(looked_at);
    in_threads([&](int64_t k) {
        if (k < 2)
            seen[k] += first_of(looked_at.narrow(1, 2, 1));
    });
    std::printf("seen %.4f %.4f\n", seen[0], seen[1]);
}

static double use(int64_t k, const torch::Tensor &outputs) {
    auto row = outputs[0];
    if (k == 0)
        return first_of(outputs);
    if (k == 1)
        outputs.mul_(0.5);
    else
        outputs.data_ptr<float>()[1] = 3;
    return outputs.sum().item<double>() + row.sum().item<double>();
}

static void train(int64_t k, double *sum) {
    torch::AutoGradMode is_trained(true);
    auto data = torch::arange(ROWS * 5, torch::kFloat).view({ROWS, 5}) * 0.01 * (k + 1);
    torch::nn::Linear model(5, 3);
    {
        torch::NoGradGuard guard;
        model->weight.fill_(0.1 * (k + 1));
        model->bias.zero_();
    }
    torch::optim::SGD optimizer(model->parameters(), 0.01);
    for (int step = 0; step < 30; step++) {
        optimizer.zero_grad();
        auto outputs = model(data);
        outputs.pow(2).mean().backward();
        optimizer.step();
        torch::NoGradGuard guard;
        *sum += use(k % 3, outputs.detach().clone());
    }
}

static void train_side_by_side() {
    std::vector<double> sums(THREADS);
    in_threads([&](int64_t k) { train(k, &sums[k]); });
    std::printf("side by side");
    for (double sum : sums)
        std::printf(" %.3f", sum);
    std::printf("\n");
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
        if (step == 0)
            share_all(outputs.detach());
    }
    train_side_by_side();
}
