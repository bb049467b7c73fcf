// Data loaders of many kinds. What one process reads stands in $ACCEL_TEST_READS.<pid>, one number: a page of memory that the program does not look at again.
//
//   loaders KIND [workers] [batch]
//
// KIND says what is special; each trains for two epochs, evaluates after each, and prints losses, labels and the random stream's next number.
#include <torch/torch.h>

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <iomanip>
#include <iostream>
#include <random>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "dump.h"
#include "loaders.h"

using namespace torch::data;

struct Net : torch::nn::Module {
    Net() {
        first = register_module("first", torch::nn::Linear(FEATURES, 24));
        second = register_module("second", torch::nn::Linear(24, CLASSES));
    }
    torch::Tensor forward(torch::Tensor x) {
        x = torch::dropout(torch::relu(first->forward(x.flatten(1))), 0.3, is_training());
        return torch::log_softmax(second->forward(x), 1);
    }
    torch::nn::Linear first{nullptr}, second{nullptr};
};

// A batch as (data, target), whatever the loader's batches are.
using Batch = Example<>;
static Batch pair_of(Batch &batch) {
    return batch;
}
static Batch pair_of(TensorExample &batch) {
    return {batch.data, batch.data.sum(1).gt(0).to(torch::kLong)};
}
static Batch pair_of(std::vector<Batch> &examples) {
    std::vector<torch::Tensor> data, target;
    for (auto &example : examples) {
        data.push_back(example.data);
        target.push_back(example.target);
    }
    return {torch::stack(data), torch::stack(target)};
}
template <typename Rows> static size_t rows_of(Rows &batch) {
    return pair_of(batch).data.size(0);
}
static size_t rows_of(std::vector<Batch> &examples) {
    return examples.size();
}

// One pass through a loader: calls back with each batch and its number of rows.
using Pass = std::function<void(const std::function<void(const Batch &, size_t)> &)>;
template <typename Loader> static Pass pass_of(Loader &loader) {
    return [&loader](const auto &use) {
        for (auto &batch : loader)
            use(pair_of(batch), rows_of(batch));
    };
}

static void train(Net &net, const Pass &pass, torch::optim::Optimizer &optimizer) {
    net.train();
    int index = 0;
    torch::Tensor last;
    pass([&](const Batch &batch, size_t rows) {
        optimizer.zero_grad();
        auto output = net.forward(batch.data);
        auto loss = torch::nll_loss(output, batch.target);
        loss.backward();
        dump_gradients(net);
        optimizer.step();
        last = loss.detach();
        auto labels = batch.target.accessor<int64_t, 1>();
        std::cout << "batch " << ++index << " rows " << rows << " loss " << loss.item<double>() << " labels " << labels[0] << " "
                  << labels[labels.size(0) - 1] << " mean " << batch.data.mean().item<double>() << std::endl;
    });
    last_loss = last;
}

static void evaluate(Net &net, const Pass &pass) {
    torch::NoGradGuard no_grad;
    net.eval();
    int64_t correct = 0, seen = 0;
    double loss = 0;
    pass([&](const Batch &batch, size_t rows) {
        auto output = net.forward(batch.data);
        loss += torch::nll_loss(output, batch.target, {}, torch::Reduction::Sum).item<double>();
        correct += output.argmax(1).eq(batch.target).sum().item<int64_t>();
        seen += rows;
    });
    std::cout << "test loss " << loss / seen << " correct " << correct << " of " << seen << std::endl;
}

// The training loader is what KIND says, the test loader is a plain one.
static void run_passes(const Pass &training, size_t batch) {
    auto net = std::make_shared<Net>();
    scores_of = [net](const torch::Tensor &x) { return net->second(torch::relu(net->first(x))); };
    torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    auto test = make_data_loader<samplers::SequentialSampler>(Blobs(50, 2).map(transforms::Stack<>()), DataLoaderOptions(2 * batch));
    std::cout << std::fixed << std::setprecision(5);
    for (int epoch = 0; epoch < 2; epoch++) {
        train(*net, training, optimizer);
        evaluate(*net, pass_of(*test));
    }
    std::cout << "next random number " << torch::rand({1}).item<float>() << std::endl;
    dump_parameters(*net);
}

template <typename Loader> static void run(Loader loader, size_t batch) {
    run_passes(pass_of(*loader), batch);
}

template <typename Set> static void run_set(Set set, DataLoaderOptions options) {
    run(make_data_loader(std::move(set), options), options.batch_size());
}

// More loaders than are remembered, each at an address of its own and left while its workers have lists to read, which are never stacked then.
static void leave_early(DataLoaderOptions options) {
    std::vector<std::unique_ptr<char[]>> kept;
    torch::nn::Linear model(FEATURES, CLASSES);
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int epoch = 0; epoch < 250; epoch++) {
        auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<Slow, transforms::Stack<>>(Slow(310, 1), {}), options);
        int left = 8;
        for (auto &batch : *loader) {
            optimizer.zero_grad();
            auto loss = torch::nll_loss(torch::log_softmax(model(batch.data.flatten(1)), 1), batch.target);
            loss.backward();
            optimizer.step();
            if (--left == 0) {
                std::cout << "epoch " << epoch << " loss " << loss.item<float>() << std::endl;
                break;
            }
        }
        loader.reset();
        for (size_t bytes = 16; bytes <= 1024; bytes += 4)
            kept.emplace_back(new char[bytes]);
    }
}

int main(int argc, char **argv) {
    const std::string kind = argc > 1 ? argv[1] : "plain";
    const size_t workers = argc > 2 ? std::atol(argv[2]) : 0, batch = argc > 3 ? std::atol(argv[3]) : 25;
    auto options = DataLoaderOptions(batch).workers(workers);
    torch::manual_seed(7);
    auto stack = transforms::Stack<>();
    if (kind == "plain") {
        run_set(Blobs(310, 1).map(transforms::TensorLambda<>([](torch::Tensor x) { return x * 2; })).map(stack), options);
    } else if (kind == "sequential") {
        run(make_data_loader<samplers::SequentialSampler>(Blobs(310, 1).map(Shift()).map(stack), options), batch);
    } else if (kind == "drop_last") {
        run_set(Blobs(310, 1).map(stack), options.drop_last(true));
    } else if (kind == "tensors") {
        run_set(Singles(310).map(transforms::Stack<TensorExample>()), options);
    } else if (kind == "tensor_dataset") {
        run_set(datasets::TensorDataset(torch::randn({310, FEATURES})).map(transforms::Stack<TensorExample>()), options);
    } else if (kind == "later_thread") { // that has the number of one of a loader's workers, which are gone
        auto first = make_data_loader(Blobs(310, 1).map(stack), options.workers(2));
        for (auto &read : *first)
            std::cout << read.data.sum().item<float>() << std::endl;
        first.reset();
        std::thread([&] { run_set(Blobs(310, 1).map(stack), options.workers(0)); }).join();
    } else if (kind == "from_file") {
        run(make_data_loader<samplers::SequentialSampler>(datasets::map<FromFile, transforms::Stack<>>(FromFile(310, 1), stack), options), batch);
    } else if (kind == "left") {
        leave_early(options.workers(2));
    } else if (kind == "talking") {
        run(make_data_loader<samplers::SequentialSampler>(datasets::map<Talking, transforms::Stack<>>(Talking(310, 1), stack), options), batch);
    } else if (kind == "hardest") {
        run_set(datasets::map<Hardest, transforms::Stack<>>(Hardest(310, 1), stack), options);
    } else if (kind == "sloped" || kind == "sloped_backward") {
        run_set(datasets::map<Sloped, transforms::Stack<>>(Sloped(310, kind == "sloped_backward"), stack), options);
    } else if (kind == "making") {
        run_set(datasets::map<Making, transforms::Stack<>>(Making(310, 1), stack), options);
    } else if (kind == "looking_back") {
        run_set(datasets::map<LookingBack, transforms::Stack<>>(LookingBack(310, 1), stack), options);
    } else if (kind == "counting") {
        run_set(datasets::map<Counting, transforms::Stack<>>(Counting(310, 1), stack), options);
    } else if (kind == "adversarial") {
        run_set(datasets::map<Adversarial, transforms::Stack<>>(Adversarial(310, 1), stack), options);
    } else if (kind == "default_generator") {
        run_set(Noisy(310).map(stack), options);
    } else if (kind == "late") {
        run(make_data_loader<samplers::SequentialSampler>(Noisy(310, 100).map(stack), options), batch);
    } else if (kind == "member_generator") {
        run_set(Augmented<Member>(310).map(stack), options);
    } else if (kind == "static_generator") {
        run_set(Augmented<Static>(310).map(stack), options);
    } else if (kind == "pointed_generator") {
        run_set(Augmented<Pointed>(310).map(stack), options);
    } else if (kind == "deep_generator") {
        run_set(Augmented<Deep>(310).map(stack), options);
    } else if (kind == "captured_generator") { // a variable of a function; in the next one, a member of an object
        std::mt19937 generator{5};
        run_set(Blobs(310, 1).map(transforms::Lambda<Example<>>([&](Example<> example) { return augmented(example, generator); })).map(stack), options);
    } else if (kind == "inner_generator") {
        auto application = std::make_unique<Application>();
        auto &generator = application->generator;
        run_set(Blobs(310, 1).map(transforms::Lambda<Example<>>([&generator](Example<> example) { return augmented(example, generator); })).map(stack), options);
    } else if (kind == "hidden_generator") {
        run_set(Augmented<Hidden>(310).map(stack), options);
    } else if (kind == "rare_member") {
        run_set(Augmented<Member>(310, 40).map(stack), options);
    } else if (kind == "rare_written") {
        run_set(Fading(310, 40).map(stack), options);
    } else if (kind == "rare_static") {
        run_set(Augmented<Static>(310, 40).map(stack), options);
    } else if (kind == "rare_pointed") {
        run_set(Augmented<Pointed>(310, 40).map(stack), options);
    } else if (kind == "global_visits") {
        static std::vector<int> visits(100);
        auto count = [](Example<> example) {
            visits[static_cast<size_t>(example.target.item<int64_t>())]++;
            return example;
        };
        run_set(Blobs(310, 1).map(transforms::Lambda<Example<>>(count)).map(stack), options);
        std::printf("visits %d\n", visits[0]);
    } else if (kind == "counted_visits") {
        auto visits = std::make_shared<std::vector<int>>(5000000);
        auto count = [visits](Example<> example) {
            (*visits)[4000000]++;
            return example;
        };
        run_set(Blobs(310, 1).map(transforms::Lambda<Example<>>(count)).map(stack), options);
        std::printf("visits %d\n", (*visits)[4000000]);
    } else if (kind == "rand") {
        run_set(Augmented<Rand>(310).map(stack), options);
    } else if (kind == "frames") {
        run_set(Frames(310, batch).map(stack), options);
    } else if (kind == "get_batch") {
        run_set(Centred(310).map(stack), options);
    } else if (kind == "batch_transform") {
        run_set(Blobs(310, 1).map(transforms::BatchLambda<std::vector<Batch>>(centre)).map(stack), options);
    } else if (kind == "apply_batch") {
        run_set(Blobs(310, 1).map(Mix()).map(stack), options);
    } else if (kind == "collate") {
        run_set(Blobs(310, 1).map(transforms::Collate<Batch, std::vector<Batch>>(collate)), options);
    } else if (kind == "unstacked") {
        run_set(Blobs(310, 1), options);
    } else if (kind == "batches") {
        run_set(Sliced(310), options);
    } else if (kind == "custom_sampler") {
        run(make_data_loader(Blobs(310, 1).map(stack), Backwards(310), options), batch);
    } else if (kind == "chunks") {
        using Chunks = datasets::ChunkDataset<Reader, samplers::SequentialSampler, samplers::SequentialSampler>;
        auto set = datasets::make_shared_dataset<Chunks>(Reader(), samplers::SequentialSampler(0), samplers::SequentialSampler(0),
                                                         datasets::ChunkDatasetOptions(1, batch));
        run(make_data_loader(set.map(stack), options.workers(0)), batch);
    }
}
