// The data sets, transforms and samplers of loaders.cpp.
#pragma once

#include <torch/torch.h>

#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

enum { FEATURES = 12, CLASSES = 3 };

using namespace torch::data;

// One more example was read. The count is in a file's memory: no variable of the program changes.
inline void count_read() {
    static std::atomic<uint64_t> *const count = [] {
        const char *stem = std::getenv("ACCEL_TEST_READS");
        if (!stem)
            return new std::atomic<uint64_t>;
        int file = open((std::string(stem) + "." + std::to_string(getpid())).c_str(), O_RDWR | O_CREAT, 0666);
        if (file < 0 || ftruncate(file, sizeof(uint64_t)))
            std::abort();
        return static_cast<std::atomic<uint64_t> *>(mmap(nullptr, sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    }();
    ++*count;
}

class Blobs : public datasets::Dataset<Blobs> {
  public:
    Blobs(int64_t samples, int seed) {
        auto spread = torch::linspace(-1, 1, samples * FEATURES).view({samples, FEATURES});
        targets = (torch::arange(samples) * (seed + 2)).remainder(CLASSES);
        features = (spread * 37.7 * seed).sin() + targets.unsqueeze(1);
    }
    Example<> get(size_t index) override {
        count_read();
        return {features[index], targets[index]};
    }
    torch::optional<size_t> size() const override {
        return features.size(0);
    }

  protected:
    torch::Tensor features, targets;
};

// Labels are in a file of the working directory, each example's in a line of its own; all are read for each.
class FromFile : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        std::ifstream labels("labels.txt");
        int64_t label = 0;
        for (size_t i = 0; i <= index; i++)
            labels >> label;
        return {features[index], torch::tensor(label)};
    }
};

// Examples without a target.
class Singles : public datasets::Dataset<Singles, TensorExample> {
  public:
    explicit Singles(int64_t samples) : blobs(samples, 1) {
    }
    TensorExample get(size_t index) override {
        return blobs.get(index).data;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
};

// ---- get() asks the model under training: which of some versions of the example is the hardest, and where it should be moved to be harder

inline std::function<torch::Tensor(torch::Tensor)> scores_of;

class Hardest : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        torch::NoGradGuard no_grad;
        auto example = Blobs::get(index);
        auto versions = example.data + torch::linspace(-0.5, 0.5, 8).unsqueeze(1);
        auto scores = scores_of(versions).select(1, example.target.item<int64_t>());
        return {versions[scores.argmin().item<int64_t>()], example.target};
    }
};

class Adversarial : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        auto data = example.data.clone().requires_grad_();
        auto score = scores_of(data.unsqueeze(0)).select(1, example.target.item<int64_t>()).sum();
        return {example.data - 0.1 * torch::autograd::grad({score}, {data})[0].sign(), example.target};
    }
};

// Moved along a gradient of its own, with or without a backward.
class Sloped : public Blobs {
  public:
    Sloped(int64_t samples, bool accumulates) : Blobs(samples, 1), accumulates(accumulates) {
    }
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        auto data = example.data.clone().requires_grad_();
        auto slope = torch::tanh(data).sum();
        if (!accumulates)
            return {example.data + torch::autograd::grad({slope}, {data})[0], example.target};
        slope.backward();
        return {example.data + data.grad(), example.target};
    }

  private:
    bool accumulates;
};

// Makes something that could be trained, and does not.
class Making : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        torch::nn::LayerNorm unused(torch::nn::LayerNormOptions({FEATURES}));
        return Blobs::get(index);
    }
};

// Some examples hang on the last loss, from the second epoch on.
inline torch::Tensor last_loss;

class LookingBack : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        bool looks = last_loss.defined() && index % 40 == 3;
        return {looks ? example.data * last_loss.item<float>() : example.data.clone(), example.target.clone()};
    }
};

// Other examples from the second epoch on, told by a counter that the workers' copies share.
class Counting : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        auto example = Blobs::get(index);
        return {(*read)++ < features.size(0) ? example.data : example.data * 0.5 + 1, example.target};
    }

  private:
    std::shared_ptr<std::atomic<int64_t>> read = std::make_shared<std::atomic<int64_t>>(0);
};

class Talking : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        std::cout << "reading " << index << std::endl;
        return Blobs::get(index);
    }
};

class Slow : public Blobs {
  public:
    using Blobs::Blobs;
    Example<> get(size_t index) override {
        usleep(200);
        return Blobs::get(index);
    }
};

// ---- get() draws from what no other example should see

class Noisy : public datasets::Dataset<Noisy> {
  public:
    explicit Noisy(int64_t samples, size_t calm = 0) : blobs(samples, 1), calm(calm) {
    }
    Example<> get(size_t index) override {
        auto example = blobs.get(index);
        if (index >= calm)
            example.data = example.data + 0.1 * torch::randn({FEATURES});
        return example;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
    size_t calm; // the first so many examples are read without noise
};

// some examples fade each time they are read
class Fading : public datasets::Dataset<Fading> {
  public:
    explicit Fading(int64_t samples, size_t every) : blobs(samples, 1), strengths(torch::ones({samples})), every(every) {
    }
    Example<> get(size_t index) override {
        auto example = blobs.get(index);
        torch::Tensor strength = strengths[static_cast<int64_t>(index)];
        if (index % every == every - 1)
            strength.mul_(0.9);
        example.data = example.data * strength;
        return example;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
    torch::Tensor strengths;
    size_t every; // one of so many
};

struct Member {
    double operator()() {
        return generator() / 4294967296.0;
    }
    std::mt19937 generator{5};
};
struct Static {
    double operator()() {
        static std::mt19937 generator{5};
        return generator() / 4294967296.0;
    }
};
struct Pointed {
    double operator()() {
        return (*generator)() / 4294967296.0;
    }
    std::shared_ptr<std::mt19937> generator = std::make_shared<std::mt19937>(5);
};
struct Deep { // behind pointers to pointers to pointers
    double operator()() {
        return (***generator)() / 4294967296.0;
    }
    using One = std::shared_ptr<std::mt19937>;
    using Two = std::shared_ptr<One>;
    std::shared_ptr<Two> generator = std::make_shared<Two>(std::make_shared<One>(std::make_shared<std::mt19937>(5)));
};
struct Hidden { // behind an address that does not look like one
    double operator()() {
        return (*reinterpret_cast<std::mt19937 *>(~address))() / 4294967296.0;
    }
    uintptr_t address = ~reinterpret_cast<uintptr_t>(new std::mt19937(5));
};
struct Application { // a generator in the middle of it
    double rate = 0.1;
    int64_t seen = 0;
    std::mt19937 generator{5};
};
inline Example<> augmented(Example<> example, std::mt19937 &generator) {
    example.data = example.data * (0.9 + 0.2 * (generator() / 4294967296.0));
    return example;
}
struct Rand {
    double operator()() {
        return std::rand() / static_cast<double>(RAND_MAX);
    }
};

template <typename Source> class Augmented : public datasets::Dataset<Augmented<Source>> {
  public:
    explicit Augmented(int64_t samples, size_t every = 1) : blobs(samples, 1), every(every) {
    }
    Example<> get(size_t index) override {
        auto example = blobs.get(index);
        if (index % every == every - 1)
            example.data = example.data * (0.9 + 0.2 * source());
        return example;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
    size_t every; /* one example of so many */
    Source source;
};

// An example is a stack of frames, as many as the batch has rows.
class Frames : public datasets::Dataset<Frames> {
  public:
    Frames(int64_t samples, size_t frames) : blobs(samples, 1), frames(frames) {
    }
    Example<> get(size_t index) override {
        auto example = blobs.get(index);
        std::vector<torch::Tensor> all;
        for (size_t i = 0; i < frames; i++)
            all.push_back(example.data + 0.1 * i);
        example.data = torch::stack(all).mean(0);
        return example;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
    size_t frames;
};

// ---- examples that know of each other

inline std::vector<Example<>> centre(std::vector<Example<>> examples) {
    auto sum = torch::zeros({FEATURES});
    for (auto &example : examples)
        sum = sum + example.data;
    for (auto &example : examples)
        example.data = example.data - sum / static_cast<double>(examples.size());
    return examples;
}

class Centred : public datasets::Dataset<Centred> {
  public:
    explicit Centred(int64_t samples) : blobs(samples, 1) {
    }
    Example<> get(size_t index) override {
        return blobs.get(index);
    }
    std::vector<Example<>> get_batch(torch::ArrayRef<size_t> indices) override {
        return centre(datasets::Dataset<Centred>::get_batch(indices));
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
};

// The program's own transform of single examples, and one that mixes neighbours.
struct Shift : transforms::TensorTransform<> {
    torch::Tensor operator()(torch::Tensor input) override {
        return input + 0.5;
    }
};
struct Mix : transforms::Transform<Example<>, Example<>> {
    Example<> apply(Example<> example) override {
        return example;
    }
    std::vector<Example<>> apply_batch(std::vector<Example<>> examples) override {
        for (size_t i = 1; i < examples.size(); i++)
            examples[i].data = 0.5 * (examples[i].data + examples[i - 1].data);
        return examples;
    }
};

inline Example<> collate(std::vector<Example<>> examples) {
    return transforms::Stack<>().apply_batch(centre(std::move(examples)));
}

// A data set that makes whole batches.
class Sliced : public datasets::BatchDataset<Sliced, Example<>> {
  public:
    explicit Sliced(int64_t samples) : blobs(samples, 1) {
    }
    Example<> get_batch(torch::ArrayRef<size_t> indices) override {
        std::vector<Example<>> examples;
        for (size_t index : indices)
            examples.push_back(blobs.get(index));
        auto batch = transforms::Stack<>().apply_batch(examples);
        batch.data = batch.data / static_cast<double>(indices.size());
        return batch;
    }
    torch::optional<size_t> size() const override {
        return blobs.size();
    }

  private:
    Blobs blobs;
};

class Backwards : public samplers::SequentialSampler {
  public:
    explicit Backwards(size_t samples) : SequentialSampler(samples), samples(samples) {
    }
    torch::optional<std::vector<size_t>> next(size_t batch) override {
        auto indices = SequentialSampler::next(batch);
        if (indices)
            for (auto &index : *indices)
                index = samples - 1 - index;
        return indices;
    }

  private:
    size_t samples;
};

class Reader : public datasets::ChunkDataReader<Example<>> {
  public:
    using BatchType = std::vector<Example<>>;
    std::vector<Example<>> read_chunk(size_t chunk) override {
        Blobs blobs(310, 1);
        std::vector<Example<>> examples;
        for (size_t i = chunk * 62; i < (chunk + 1) * 62; i++)
            examples.push_back(blobs.get(i));
        return examples;
    }
    size_t chunk_count() override {
        return 5;
    }
    void reset() override {
    }
};
