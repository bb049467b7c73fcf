// Data loaders whose reading leaves something behind where it is hard to find, and loaders that end differently: tests/loading.bats.
//
//   loader_traces KIND [workers] [ARGUMENT]
#include <torch/torch.h>

#include <array>
#include <cinttypes>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <unistd.h>

#include "loader_traces.h"

extern "C" double decoder_gain(unsigned long index);
extern "C" unsigned long decoder_calls(void);

// ---- samplers and options

// Skips some examples, fills batches up, and hands out what is left in the end.
struct Filtered : samplers::RandomSampler {
    explicit Filtered(int64_t samples) : RandomSampler(samples) {
    }
    torch::optional<std::vector<size_t>> next(size_t batch) override {
        while (kept.size() < batch) {
            auto more = RandomSampler::next(batch);
            if (!more)
                break;
            for (auto index : *more)
                if (index % 3)
                    kept.push_back(index);
        }
        size_t count = std::min(batch, kept.size());
        if (!count)
            return {};
        std::vector<size_t> out(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
        kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(count));
        return out;
    }
    std::vector<size_t> kept;
};

static void filtered(size_t workers) {
    Trainer trainer;
    auto loader = make_data_loader(Blobs(310, 1).map(transforms::Stack<>()), Filtered(310), DataLoaderOptions(25).workers(workers).drop_last(true));
    for (int epoch = 0; epoch < 3; epoch++)
        trainer.tell("filtered", trainer.pass(*loader));
}

// Large enough that malloc gives the next one the place of the last.
struct Padded : Blobs {
    using Blobs::Blobs;
    std::array<char, 700> padding{};
};

// A block as large as a loader, from one rank's heap only: there the next loader has another place than the last one had.
template <typename Loader> static std::unique_ptr<char[]> one_ranks(bool wants) {
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    return std::unique_ptr<char[]>(wants && rank && *rank == '1' ? new char[sizeof(Loader)] : nullptr);
}

static void one_pass(Trainer &trainer, const samplers::RandomSampler &sampler, size_t workers, bool trains, bool elsewhere = false) {
    using Loader = StatelessDataLoader<datasets::MapDataset<Padded, transforms::Stack<>>, samplers::RandomSampler>;
    auto block = one_ranks<Loader>(elsewhere);
    auto loader = make_data_loader(datasets::map<Padded, transforms::Stack<>>(Padded(200, 1), {}), sampler,
                                   DataLoaderOptions(32).workers(workers).drop_last(trains));
    trainer.tell(trains ? "train" : "evaluate", trainer.pass(*loader, trains));
}

static void stale(size_t workers, bool evaluates_first) {
    Trainer trainer;
    for (int epoch = 0; epoch < 6; epoch++) {
        one_pass(trainer, samplers::RandomSampler(200), workers, !evaluates_first);
        one_pass(trainer, samplers::RandomSampler(200), workers, evaluates_first);
    }
}

// On one rank a loader stands where the last but one has stood, on the others where the last one has. Nothing but its sampler, which may be the same as all
// others', says that it is another one.
static void stale_elsewhere(bool copied) {
    Trainer trainer;
    samplers::RandomSampler sampler(200);
    for (int pass = 0; pass < 12; pass++)
        one_pass(trainer, copied ? sampler : samplers::RandomSampler(200), 0, pass % 2 == 0, pass % 2);
}

// Two such loaders at a time, which are gone through in turn.
static void stale_zipped() {
    Trainer trainer;
    samplers::RandomSampler sampler(200);
    auto make = [&](bool drops) {
        return make_data_loader(datasets::map<Padded, transforms::Stack<>>(Padded(200, 1), {}), sampler, DataLoaderOptions(32).drop_last(drops));
    };
    for (int pass = 0; pass < 6; pass++) {
        auto block = one_ranks<std::remove_reference_t<decltype(*make(true))>>(pass % 2);
        auto one = make(pass % 2), other = make(pass % 2);
        int batches = 0;
        for (auto at = one->begin(), beside = other->begin(); at != one->end() && beside != other->end(); ++at, ++beside)
            batches += trainer.pass_one(*at, true) + trainer.pass_one(*beside, true);
        trainer.tell("zipped", batches);
    }
}

// A loader is divided; then one whose sampler is not known to be seen stacks as many examples as the last batch had rows here, at the same place of the stack.
template <typename Loader> __attribute__((noinline)) static int whole_pass(Trainer &trainer, Loader &loader) {
    return trainer.pass(loader);
}

static void beside_distributed() {
    Trainer trainer;
    auto data = [] { return datasets::map<Padded, transforms::Stack<>>(Padded(192, 1), {}); };
    auto one = make_data_loader(data(), samplers::RandomSampler(192), DataLoaderOptions(32));
    auto other = make_data_loader(data(), samplers::DistributedSequentialSampler(64, 1, 0), DataLoaderOptions(16));
    for (int epoch = 0; epoch < 3; epoch++) {
        trainer.tell("train", whole_pass(trainer, *one));
        trainer.tell("other", whole_pass(trainer, *other));
    }
}

// More loaders than are remembered, in turn; and one that another thread goes on with.
static void clients(size_t workers) {
    Trainer trainer;
    auto make = [&](int64_t size) {
        return make_data_loader(Blobs(size, 1).map(transforms::Stack<>()), DataLoaderOptions(32).workers(workers).drop_last(true));
    };
    std::vector<decltype(make(0))> all;
    for (int i = 0; i < 70; i++)
        all.push_back(make(100));
    for (int round = 0; round < 3; round++) {
        int batches = 0;
        for (auto &client : all)
            batches += trainer.pass(*client);
        trainer.tell("round", batches);
        std::cout << "drops " << all[0]->options().drop_last << std::endl;
    }
    std::thread([&] { trainer.tell("thread", trainer.pass(*all[69])); }).join();
}

// ---- what reading leaves behind

// A vector of images, and what is declared behind it: a number of examples read, its own or somebody else's.
struct Images : Blobs {
    Images(int64_t samples, int64_t *other) : Blobs(samples, 1), reads(other ? other : own.get()) {
        for (int64_t i = 0; i < samples; i++)
            images.push_back(torch::full({FEATURES}, static_cast<double>(i) / static_cast<double>(samples)));
    }
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        if (reads)
            ++*reads;
        return {images[index].clone(), example.target};
    }
    std::vector<torch::Tensor> images;
    std::shared_ptr<int64_t> own = std::make_shared<int64_t>(0);
    int64_t *reads;
};

static void crowded(size_t workers, bool on_stack) {
    Trainer trainer;
    int64_t here = 0;
    Images set(1500, on_stack ? &here : nullptr);
    auto reads = set.reads;
    auto own = set.own;
    auto loader = make_data_loader(datasets::map<Images, transforms::Stack<>>(std::move(set), {}), DataLoaderOptions(50).workers(workers));
    trainer.tell("crowded", trainer.pass(*loader));
    std::cout << "read " << *reads << std::endl;
}

// The same, which counts nothing.
static void gallery(size_t workers) {
    Trainer trainer;
    Images set(1500, nullptr);
    set.reads = nullptr;
    auto loader = make_data_loader(datasets::map<Images, transforms::Stack<>>(std::move(set), {}), DataLoaderOptions(50).workers(workers));
    trainer.tell("gallery", trainer.pass(*loader));
}

struct Decoded : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        return {example.data * decoder_gain(index), example.target};
    }
};

struct Tally {
    ~Tally() {
        total += count;
    }
    size_t count = 0;
    static std::atomic<size_t> total;
};
std::atomic<size_t> Tally::total;
static thread_local Tally tally;
struct Tallied : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        tally.count++;
        return Blobs::get(index);
    }
};

static int log_file;
struct Logged : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        if (dprintf(log_file, "read %zu\n", index) < 0)
            std::abort();
        return Blobs::get(index);
    }
};

// Few examples are worth a word.
static std::ofstream skipped;
struct Skipping : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        if (index % 140 == 139)
            skipped << "example " << index << " is bad" << std::endl;
        return Blobs::get(index);
    }
};

// A buffer of each thread that grows when it must; and, from some example on, a count.
struct Growing : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        static thread_local std::vector<char> buffer(100);
        if (index == 260)
            buffer.resize(10000);
        return Blobs::get(index);
    }
};
struct TalliedLate : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        tally.count += index >= 200;
        return Blobs::get(index);
    }
};

// Far behind the begin of a large tensor a number is counted up, by its address.
struct Painted : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        canvas.data_ptr<float>()[10000000] += 1;
        return Blobs::get(index);
    }
    torch::Tensor canvas = torch::zeros({12000000});
};
static void painted(size_t workers) {
    Trainer trainer;
    Painted set(310, 1);
    auto canvas = set.canvas;
    auto loader = make_data_loader(datasets::map<Painted, transforms::Stack<>>(std::move(set), {}), DataLoaderOptions(25).workers(workers));
    trainer.tell("painted", trainer.pass(*loader));
    std::cout << "strokes " << canvas.data_ptr<float>()[10000000] << std::endl;
}

// Another thread goes on with what the main one has begun.
static void handed_over() {
    Trainer trainer;
    auto loader = make_data_loader(Blobs(310, 1).map(transforms::Stack<>()), DataLoaderOptions(32).workers(2).drop_last(true));
    trainer.tell("first", trainer.pass(*loader));
    auto batch = loader->begin();
    ++++batch;
    std::thread([&] {
        for (; batch != loader->end(); ++batch)
            trainer.rows += batch->data.size(0);
    }).join();
    trainer.tell("thread", 0);
}

struct Dotted : Blobs {
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        std::cout << '.';
        return Blobs::get(index);
    }
};

template <typename Set> static void two_epochs(size_t workers) {
    Trainer trainer;
    auto loader = make_data_loader<samplers::SequentialSampler>(datasets::map<Set, transforms::Stack<>>(Set(310, 1), {}),
                                                                DataLoaderOptions(25).workers(workers));
    for (int epoch = 0; epoch < 2; epoch++)
        trainer.tell("epoch", trainer.pass(*loader));
}

int main(int argc, char **argv) {
    const std::string kind = argc > 1 ? argv[1] : "";
    const size_t workers = argc > 2 ? static_cast<size_t>(std::atol(argv[2])) : 0;
    if (kind == "dots")
        std::ios::sync_with_stdio(false);
    torch::manual_seed(7);
    if (kind == "filtered")
        filtered(workers);
    else if (kind == "stale" || kind == "stale_evaluation")
        stale(workers, kind != "stale");
    else if (kind == "stale_elsewhere" || kind == "stale_copied")
        stale_elsewhere(kind == "stale_copied");
    else if (kind == "stale_zipped")
        stale_zipped();
    else if (kind == "beside_distributed")
        beside_distributed();
    else if (kind == "clients")
        clients(workers);
    else if (kind == "crowded" || kind == "crowded_stack")
        crowded(workers, kind != "crowded");
    else if (kind == "gallery")
        gallery(workers);
    else if (kind == "library") {
        two_epochs<Decoded>(workers);
        std::cout << "decoded " << decoder_calls() << std::endl;
    } else if (kind == "tally") {
        two_epochs<Tallied>(workers);
        std::cout << "counted " << Tally::total << std::endl;
    } else if (kind == "log") {
        log_file = open("reads.log", O_WRONLY | O_CREAT | O_APPEND, 0666);
        two_epochs<Logged>(workers);
    } else if (kind == "skipped") {
        skipped.open("skipped.log");
        skipped << "skipped examples" << std::endl;
        two_epochs<Skipping>(workers);
    } else if (kind == "dots")
        two_epochs<Dotted>(workers);
    else if (kind == "growing")
        two_epochs<Growing>(workers);
    else if (kind == "tally_late") {
        two_epochs<TalliedLate>(workers);
        std::cout << "counted " << Tally::total << std::endl;
    } else if (kind == "painted")
        painted(workers);
    else if (kind == "handed_over")
        handed_over();
    else if (kind == "caught")
        caught(workers);
    else if (kind == "mended")
        mended(workers);
    else if (kind == "turning")
        two_epochs<Turning>(workers);
    else if (kind == "few_bad" || kind == "few_bad_bare")
        few_bad(kind != "few_bad");
    else if (kind == "half_stale")
        half_stale();
    else if (kind == "shown")
        shown();
    else if (kind == "neighbours")
        neighbours();
}
