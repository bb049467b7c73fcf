// The training of loader_traces.cpp; and data sets whose reading is seldom another one.
#pragma once

#include <malloc.h>

#include <cstdlib>
#include <exception>
#include <map>
#include <new>
#include <stdexcept>

#include "loaders.h"

// ---- training

struct Trainer {
    int pass_one(const Example<> &batch, bool trains) {
        auto loss = torch::nn::functional::cross_entropy(model->forward(batch.data.flatten(1)), batch.target);
        if (trains) {
            optimizer.zero_grad();
            loss.backward();
            optimizer.step();
        }
        std::cerr << batch.data.size(0) << " rows" << std::endl;
        last = loss.template item<double>();
        rows += batch.data.size(0);
        return 1;
    }
    template <typename Loader> int pass(Loader &loader, bool trains = true) {
        int batches = 0;
        for (auto &batch : loader)
            batches += pass_one(batch, trains);
        return batches;
    }
    void tell(const char *what, int batches) {
        std::cout << what << " batches " << batches << " rows " << rows << " loss " << last << std::endl;
        rows = 0;
    }
    torch::nn::Linear model{FEATURES, CLASSES};
    torch::optim::SGD optimizer{model->parameters(), 0.1};
    double last = 0;
    int64_t rows = 0;
};

// ---- what is seldom read, or seldom counted

// Two examples, not among the first, cannot be read. The program goes on with the next batch.
struct Broken : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        if (index == 260 || index == 293)
            throw std::runtime_error("the example is bad");
        return Blobs::get(index);
    }
};
inline void caught(size_t workers) {
    Trainer trainer;
    auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<Broken, transforms::Stack<>>(Broken(310, 1), {}),
                                                                DataLoaderOptions(25).workers(workers));
    int batches = 0, skipped = 0;
    for (auto batch = loader->begin(); batch != loader->end();) {
        batches += trainer.pass_one(*batch, true);
        for (bool reads = true; reads;)
            try {
                ++batch;
                reads = false;
            } catch (const std::exception &) {
                skipped++;
            }
    }
    trainer.tell("caught", batches);
    std::cout << "skipped " << skipped << std::endl;
}

// One example, late, is read by other means where the first ones fail; later the program itself is given an exception that is no example's.
struct Mended : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        try {
            if (index == 293)
                throw std::runtime_error("the example is bad");
        } catch (...) {
            auto why = std::current_exception();
        }
        return Blobs::get(index);
    }
};
inline void mended(size_t workers) {
    Trainer trainer;
    auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<Mended, transforms::Stack<>>(Mended(310, 1), {}),
                                                                DataLoaderOptions(25).workers(workers));
    for (int epoch = 0; epoch < 2; epoch++) {
        trainer.tell("mended", trainer.pass(*loader));
        try {
            std::rethrow_exception(std::make_exception_ptr(std::runtime_error("of something else")));
        } catch (const std::exception &) {
        }
    }
}

// Each example is turned by another angle than the last one; after a whole batch it is as it was.
struct Turning : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        turn = (turn + 1) % 5;
        return {example.data.roll(turn), example.target};
    }
    int64_t turn = 0;
};

// Few examples are counted: in an allocation of one number, with or without a count of references.
struct Spotty : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        *bad += index % 140 == 139;
        return Blobs::get(index);
    }
    std::shared_ptr<int> own = std::make_shared<int>(0);
    int *bad = own.get();
};
inline void few_bad(bool is_bare) {
    Trainer trainer;
    auto bare = std::make_unique<int>(0);
    Spotty set(310, 1);
    set.bad = is_bare ? bare.get() : set.bad;
    auto bad = set.bad;
    auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<Spotty, transforms::Stack<>>(std::move(set), {}),
                                                                DataLoaderOptions(25));
    trainer.tell("few", trainer.pass(*loader));
    std::cout << "bad " << *bad << std::endl;
}

// Half of an address that stood there before, and a small number: where the heap goes over a multiple of 4 GiB it leads into the middle of something.
struct HalfStale : Blobs {
    HalfStale(int64_t count, uint64_t seed) : Blobs(count, seed) {
        mallopt(M_MMAP_THRESHOLD, 32 << 20);
        uint64_t at = reinterpret_cast<uintptr_t>(malloc(1 << 20)), end = ((at >> 32) + 1) << 32;
        for (uint64_t last = at; at < end && at >= last;) {
            last = at;
            at = reinterpret_cast<uintptr_t>(malloc(16 << 20)) + (16 << 20);
        }
        half = end | 25;
    }
    uint64_t half;
};
inline void half_stale() {
    Trainer trainer;
    auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<HalfStale, transforms::Stack<>>(HalfStale(310, 1), {}),
                                                                DataLoaderOptions(25));
    trainer.tell("half", trainer.pass(*loader));
}

// How often each example has been shown is in a tree of many nodes.
struct Shown : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        ++times->at(static_cast<int64_t>(index) * 30);
        return Blobs::get(index);
    }
    std::shared_ptr<std::map<int64_t, int>> times = std::make_shared<std::map<int64_t, int>>();
};
inline void shown() {
    Trainer trainer;
    Shown set(310, 1);
    for (int64_t i = 0; i < 310 * 30; i++)
        (*set.times)[i] = 0;
    auto times = set.times;
    auto loader = make_data_loader(datasets::map<Shown, transforms::Stack<>>(std::move(set), {}), DataLoaderOptions(25));
    for (int epoch = 0; epoch < 2; epoch++)
        trainer.tell("shown", trainer.pass(*loader));
    int sum = 0;
    for (auto &one : *times)
        sum += one.second;
    std::cout << "shown " << sum << std::endl;
}

// Behind a loader, which is not used, stands a sampler of the program's, which makes its batches by itself.
inline void neighbours() {
    using Sampler = samplers::SequentialSampler;
    using Loader = StatelessDataLoader<datasets::MapDataset<Blobs, transforms::Stack<>>, Sampler>;
    alignas(16) static char room[sizeof(Loader) + 16 + sizeof(Sampler)];
    Trainer trainer;
    Blobs blobs(310, 1);
    auto loader = new (room) Loader(Blobs(310, 1).map(transforms::Stack<>()), Sampler(310), DataLoaderOptions(25));
    auto sampler = new (room + (sizeof(Loader) + 15) / 16 * 16) Sampler(310);
    size_t asked = 0;
    for (int epoch = 0; epoch < 2; epoch++) {
        sampler->reset();
        while (auto list = sampler->next(25)) {
            std::vector<torch::Tensor> data, targets;
            for (auto index : *list) {
                auto example = blobs.get(index);
                data.push_back(example.data);
                targets.push_back(example.target);
            }
            trainer.pass_one({torch::stack(data), torch::stack(targets)}, true);
            asked += list->size();
        }
    }
    trainer.tell("neighbours", 0);
    std::cout << "asked " << asked << std::endl;
    sampler->~Sampler();
    loader->~Loader();
}
