// The same small regression written in the ways that programs are: an optimizer of the program's own, a closure, backward in a thread of
// its own, models that threads train one after the other or side by side, graphs that a thread makes and drops meanwhile.
//
//   structures own | own_by_base | lbfgs | thread | threads | threads_at_once | threads_make | beside | looks | often | tasks | taken
//   structures node_hook | accumulator_hook | own_node | own_node_of_torch    what it puts into the graph itself; with _aside, where a backward does not come by
#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "dump.h"

struct Net : torch::nn::Module {
    Net() : first(6, 24), second(24, 1) {
        register_module("first", first);
        register_module("second", second);
    }

    torch::Tensor forward(const torch::Tensor &x) {
        return second(torch::tanh(first(x))).squeeze(1);
    }

    torch::nn::Linear first, second;
};

// Sign descent with a decaying step, as a class of the program.
class SignDescent : public torch::optim::Optimizer {
public:
    SignDescent(std::vector<torch::Tensor> parameters, double rate)
        : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))}, std::make_unique<torch::optim::SGDOptions>(rate)), rate(rate) {
    }

    torch::Tensor step(LossClosure closure = nullptr) override {
        torch::NoGradGuard no_grad;
        torch::Tensor loss;
        if (closure) {
            at::AutoGradMode with_grad(true);
            loss = closure();
        }
        for (auto &group : param_groups()) {
            for (auto &parameter : group.params()) {
                if (parameter.grad().defined()) {
                    parameter.add_(parameter.grad() / (parameter.grad().abs() + 1e-3), -rate);
                }
            }
        }
        rate *= 0.95;
        return loss;
    }

private:
    double rate;
};

struct Data {
    explicit Data(int64_t samples) {
        x = torch::randn({samples, 6});
        y = torch::sin(x.sum(1));
    }
    torch::Tensor batch_x(int64_t i) const {
        return x.slice(0, i, std::min(i + 33, x.size(0)));
    }
    torch::Tensor batch_y(int64_t i) const {
        return y.slice(0, i, std::min(i + 33, y.size(0)));
    }
    torch::Tensor x, y;
};

template <typename Optimizer>
static void train(Net &net, Optimizer &optimizer, const Data &data, const char *name) {
    for (int epoch = 1; epoch <= 3; epoch++) {
        double total = 0, looked = 0;
        for (int64_t i = 0; i < data.x.size(0); i += 33) {
            optimizer.zero_grad();
            auto output = net.forward(data.batch_x(i));
            auto loss = torch::mse_loss(output, data.batch_y(i));
            loss.backward();
            dump_gradients(net, name);
            optimizer.step();
            total += loss.template item<double>();
            looked += output.template accessor<float, 1>()[output.size(0) - 1];
        }
        std::printf("%s epoch %d loss %.5f last outputs %.4f\n", name, epoch, total, looked);
    }
}

static void train_with_closure(Net &net, const Data &data) {
    torch::optim::LBFGS optimizer(net.parameters(), torch::optim::LBFGSOptions(0.5).max_iter(6).line_search_fn("strong_wolfe"));
    int evaluations = 0;
    for (int epoch = 1; epoch <= 4; epoch++) {
        auto loss = optimizer.step([&] {
            optimizer.zero_grad();
            auto loss = torch::mse_loss(net.forward(data.x), data.y);
            loss.backward();
            dump_gradients(net);
            evaluations++;
            return loss;
        });
        std::printf("epoch %d loss %.5f after %d evaluations\n", epoch, loss.item<double>(), evaluations);
    }
}

static void train_with_thread(Net &net, const Data &data) {
    torch::optim::SGD optimizer(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    for (int64_t i = 0; i < data.x.size(0); i += 33) {
        optimizer.zero_grad();
        auto loss = torch::mse_loss(net.forward(data.batch_x(i)), data.batch_y(i));
        std::thread([&] { loss.backward(); }).join();
        dump_gradients(net);
        optimizer.step();
        std::printf("loss %.5f\n", loss.item<double>());
    }
}

static void train_in_threads(bool at_once) {
    std::vector<Net> nets(3);
    std::vector<Data> data;
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; i++) {
        data.emplace_back(150 + i);
    }
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&, i] {
            const std::string name = "model" + std::to_string(i);
            torch::optim::Adam optimizer(nets[i].parameters(), torch::optim::AdamOptions(0.02));
            train(nets[i], optimizer, data[i], name.c_str());
        });
        if (!at_once) {
            threads.back().join();
        }
    }
    for (auto &thread : threads) {
        if (thread.joinable()) {
            thread.join();
        }
    }
    for (int i = 0; i < 3; i++) {
        dump_parameters(nets[i], "model" + std::to_string(i));
    }
}

// Each thread makes its model, from a generator of its own, while others train theirs.
static void make_in_threads() {
    std::vector<std::unique_ptr<Net>> nets(3);
    std::vector<std::thread> threads;
    const Data data(150);
    for (int i = 0; i < 3; i++) {
        threads.emplace_back([&, i] {
            const std::string name = "model" + std::to_string(i);
            auto generator = at::detail::createCPUGenerator(i);
            nets[i] = std::make_unique<Net>();
            {
                torch::NoGradGuard no_grad;
                for (auto &parameter : nets[i]->parameters()) {
                    parameter.normal_(0, 0.3, generator);
                }
            }
            torch::optim::Adam optimizer(nets[i]->parameters(), torch::optim::AdamOptions(0.02));
            train(*nets[i], optimizer, data, name.c_str());
        });
    }
    for (int i = 0; i < 3; i++) {
        threads[i].join();
        dump_parameters(*nets[i], "model" + std::to_string(i));
    }
}

// Nobody waits for the thread: its tensors end while a backward looks for what it has made.
static void train_beside(Net &net, const Data &data) {
    SignDescent optimizer(net.parameters(), 0.01);
    torch::nn::Linear other(6, 6);
    std::thread beside([&] {
        for (int i = 0; i < 150; i++) {
            auto x = other(data.x);
            for (int layer = 0; layer < 300; layer++) {
                x = x * 1.01;
            }
        }
    });
    for (int i = 0; i < 20; i++) {
        train(net, optimizer, data, "model");
    }
    beside.join();
}

// Batches of two rows are not divided, and what is computed of them is not summed, whatever another thread's backward does meanwhile.
static void train_small_beside(Net &net, const Data &data) {
    SignDescent optimizer(net.parameters(), 0.01);
    Net small;
    auto train_small = [&] {
        torch::optim::SGD own(small.parameters(), 0.05);
        for (int i = 0; i < 150; i++) {
            own.zero_grad();
            auto x = data.x.slice(0, i, i + 2);
            torch::mse_loss(small.forward(x), data.y.slice(0, i, i + 2)).backward();
            if (i < 30) {
                dump_gradients(small, "small");
            }
            own.step();
        }
    };
    std::thread beside(train_small);
    for (int i = 0; i < 20; i++) {
        auto x = net.forward(data.x);
        for (int layer = 0; layer < 2000; layer++) {
            x = x * 1.0001;
        }
        optimizer.zero_grad();
        torch::mse_loss(x, data.y).backward();
        optimizer.step();
    }
    beside.join();
    std::printf("%.5f\n", small.second->weight.norm().item<double>());
    dump_parameters(small, "small");
}

// The address of a result's memory is taken by code of libtorch that is inline here, while another thread computes with other tensors.
static void look_beside(Net &net, const Data &data) {
    SignDescent optimizer(net.parameters(), 0.01);
    train(net, optimizer, data, "model");
    torch::NoGradGuard no_grad;
    std::atomic<bool> ends{false};
    torch::nn::Linear other(6, 6);
    std::vector<torch::Tensor> results;
    std::vector<float> sums;
    int wrong = 0;
    auto sum_of = [](const torch::Tensor &result) {
        const auto *memory = static_cast<const float *>(result.data_ptr());
        return std::accumulate(memory, memory + result.numel(), 0.0F);
    };
    for (int i = 0; i < 200; i++) {
        results.push_back(net.forward(data.x + i));
        sums.push_back(sum_of(results.back()));
    }
    std::thread beside([&] {
        for (auto x = other(data.x); !ends;) {
            x = x * 1.0001;
        }
    });
    for (size_t i = 0; i < 300000; i++) {
        wrong += sum_of(results[i % results.size()]) != sums[i % sums.size()];
    }
    ends = true;
    beside.join();
    std::printf("%d looks were wrong\n", wrong);
}

// More threads than any table of ours begins with, each with two tasks that exchange the same.
static void start_often(Net &net, const Data &data) {
    SignDescent optimizer(net.parameters(), 0.01);
    train(net, optimizer, data, "model");
    torch::NoGradGuard no_grad;
    const auto result = net.forward(data.x);
    const torch::Tensor both[2] = {result.exp(), result.sin()};
    const auto number = [](const torch::Tensor &tensor) { return tensor.mul(1.0).sum().item<double>(); };
    const double wanted[2] = {number(both[0]), number(both[1])};
    int wrong = 0;
    for (int i = 0; i < 1300; i++) {
        std::thread([&] {
            auto first = std::async(std::launch::async, number, both[0]), second = std::async(std::launch::async, number, both[1]);
            wrong += std::abs(first.get() - wanted[0]) > 1e-3;
            wrong += std::abs(second.get() - wanted[1]) > 1e-3;
        }).join();
    }
    std::printf("%d numbers were wrong\n", wrong);
}

// Each batch of a test in a task of its own.
static void test_in_tasks(Net &net, const Data &data) {
    SignDescent optimizer(net.parameters(), 0.01);
    for (int epoch = 0; epoch < 2; epoch++) {
        train(net, optimizer, data, "model");
        std::vector<std::future<double>> parts;
        for (int64_t i = 0; i < 100; i++) {
            parts.push_back(std::async(std::launch::async, [&, i] {
                torch::NoGradGuard no_grad;
                return torch::mse_loss(net.forward(data.x.slice(0, i, i + 100)), data.y.slice(0, i, i + 100)).item<double>();
            }));
        }
        double sum = 0;
        for (auto &part : parts) {
            sum += part.get();
        }
        std::printf("test %.5f\n", sum / 100);
    }
}

struct Rows : torch::data::Dataset<Rows> {
    torch::data::Example<> get(size_t index) override {
        return {torch::full({6}, 0.01 * static_cast<double>(index)), torch::full({1}, 1.0)};
    }
    torch::optional<size_t> size() const override {
        return 64;
    }
};

// Results of batches that a worker has loaded are taken in another order on each rank, as from a queue by threads.
static void take_results(Net &net) {
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Rows().map(torch::data::transforms::Stack<>()), torch::data::DataLoaderOptions().batch_size(8).workers(1));
    std::vector<torch::Tensor> losses;
    for (auto &batch : *loader) {
        losses.push_back(torch::mse_loss(net.forward(batch.data), batch.target.squeeze(1)).detach());
    }
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    const size_t last = losses.size() - 1, first = rank && *rank != '0' ? 1 : 0;
    std::printf("%.5f %.5f\n", losses[last - first].item<double>(), losses[last - 1 + first].item<double>());
}

// Of a hidden layer's node: scaled to norm one over the batch.
struct Scaled : torch::autograd::FunctionPreHook {
    torch::autograd::variable_list operator()(const torch::autograd::variable_list &gradients) override {
        return {gradients[0] / gradients[0].norm()};
    }
};

struct Shown : torch::autograd::FunctionPostHook {
    torch::autograd::variable_list operator()(const torch::autograd::variable_list &results,
                                              const torch::autograd::variable_list &gradients) override {
        std::printf("%.5f\n", gradients[0].norm().item<double>());
        return results;
    }
};

struct Halved : torch::autograd::Node {
    torch::autograd::variable_list apply(torch::autograd::variable_list &&gradients) override {
        return {gradients[0] / (gradients[0].norm() * 2)};
    }
};

namespace torch::autograd { struct OfTheProgram : Halved {}; } // called as if it were libtorch's

// Nodes are held by std::shared_ptr at first, by c10::intrusive_ptr in later libtorches.
template <class Own> static void hold(std::shared_ptr<Own> &pointer) {
    pointer = std::make_shared<Own>();
}
template <class Own> static void hold(c10::intrusive_ptr<Own> &pointer) {
    pointer = c10::make_intrusive<Own>();
}
template <class Own> static std::shared_ptr<Own> kind_of(const std::shared_ptr<torch::autograd::Node> &);
template <class Own, class Any> static c10::intrusive_ptr<Own> kind_of(const Any &);
template <class Own> static void put_node(torch::Tensor &hidden) {
    decltype(kind_of<Own>(hidden.grad_fn())) node;
    hold(node);
    node->set_next_edges(torch::autograd::collect_next_edges(hidden));
    hidden = hidden.detach().clone();
    torch::autograd::create_gradient_edge(hidden, node);
}

static void put_into_graph(Net &net, Data &data, const char *mode) {
    torch::Tensor hidden = net.first(data.x).tanh();
    if (!std::strncmp(mode, "node_hook", 9)) {
        hidden.grad_fn()->add_pre_hook(std::make_unique<Scaled>());
    } else if (!std::strncmp(mode, "accumulator_hook", 16)) {
        net.first->weight.view_as(net.first->weight).grad_fn()->next_edge(0).function->add_post_hook(std::make_unique<Shown>());
        hidden = net.first(data.x).tanh();
    } else {
        std::strcmp(mode, "own_node_of_torch") ? put_node<Halved>(hidden) : put_node<torch::autograd::OfTheProgram>(hidden);
    }
    auto loss = torch::mse_loss(net.second(hidden).squeeze(1), data.y);
    if (std::strstr(mode, "_aside")) { // of a backward that does not run it
        for (auto &gradient : torch::autograd::grad({loss}, {net.second->weight, hidden}))
            std::printf("%.5f\n", gradient.norm().item<double>());
        Net other;
        torch::mse_loss(other.forward(data.x), data.y).backward();
        dump_gradients(other);
        return;
    }
    loss.backward();
    std::printf("%.5f\n", net.first->weight.grad().norm().item<double>());
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "own";
    torch::manual_seed(3);
    if (!std::strcmp(mode, "threads_make")) {
        make_in_threads();
        return 0;
    }
    if (!std::strncmp(mode, "threads", 7)) {
        train_in_threads(!std::strcmp(mode, "threads_at_once"));
        return 0;
    }
    Net net;
    Data data(200);
    if (!std::strcmp(mode, "lbfgs")) {
        train_with_closure(net, data);
    } else if (!std::strcmp(mode, "thread")) {
        train_with_thread(net, data);
    } else if (!std::strcmp(mode, "looks")) {
        look_beside(net, data);
    } else if (!std::strcmp(mode, "often")) {
        start_often(net, data);
    } else if (!std::strcmp(mode, "tasks")) {
        test_in_tasks(net, data);
    } else if (!std::strcmp(mode, "taken")) {
        take_results(net);
    } else if (std::strstr(mode, "node") || !std::strncmp(mode, "accumulator_hook", 16)) {
        put_into_graph(net, data, mode);
    } else if (!std::strcmp(mode, "small_beside")) {
        train_small_beside(net, data);
    } else if (!std::strcmp(mode, "beside")) {
        train_beside(net, data);
    } else if (!std::strcmp(mode, "own_by_base")) {
        std::unique_ptr<torch::optim::Optimizer> optimizer = std::make_unique<SignDescent>(net.parameters(), 0.01);
        train(net, *optimizer, data, "model");
    } else {
        SignDescent optimizer(net.parameters(), 0.01);
        train(net, optimizer, data, "model");
    }
    dump_parameters(net);
}
