// Trains a few steps, then saves in one of the ways in which programs save, and reads back what it has saved.
//
//   save_modes model|optimizer|output|script|stream|function|large|caught|again|watched FILE
//
// Prints what it read, so that a rank that reads something else shows.
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <sys/inotify.h>
#include <unistd.h>

static torch::Tensor train(torch::nn::Linear &model, torch::optim::Optimizer &optimizer) {
    torch::Tensor output;
    for (int step = 0; step < 3; step++) {
        auto x = torch::randn({10, 4});
        optimizer.zero_grad();
        output = model->forward(x);
        output.pow(2).mean().backward();
        optimizer.step();
    }
    return output.detach();
}

static void say(const char *what, const torch::Tensor &tensor) {
    std::string sizes;
    for (int64_t size : tensor.sizes()) {
        sizes += std::to_string(size) + " ";
    }
    std::printf("%s: %ssum %.4f\n", what, sizes.c_str(), tensor.sum().item<double>());
}

static torch::Tensor read_tensor(const std::string &file) {
    torch::Tensor tensor;
    torch::load(tensor, file);
    return tensor;
}

// What appears in the folder while a model is saved there.
static void save_watched(const torch::nn::Linear &model, const std::string &file) {
    alignas(inotify_event) char events[4096];
    int watch = inotify_init1(IN_NONBLOCK);
    inotify_add_watch(watch, file.substr(0, file.rfind('/') + 1).c_str(), IN_CREATE);
    torch::save(model, file);
    ssize_t bytes = read(watch, events, sizeof events);
    for (ssize_t at = 0; at < bytes;) {
        auto event = reinterpret_cast<const inotify_event *>(events + at);
        std::printf("appeared: %s\n", event->name);
        at += sizeof *event + event->len;
    }
    close(watch);
}

int main(int argc, char **argv) {
    const std::string mode = argc > 1 ? argv[1] : "model", file = argc > 2 ? argv[2] : "saved.pt";
    torch::manual_seed(7);
    torch::nn::Linear model(4, 3);
    torch::optim::Adam optimizer(model->parameters(), 0.01);
    auto output = train(model, optimizer);
    if (mode == "model") {
        torch::save(model, file);
        torch::nn::Linear read(4, 3);
        torch::load(read, file);
        say("weight", read->weight);
    } else if (mode == "optimizer") {
        torch::save(optimizer, file);
        torch::load(optimizer, file);
        train(model, optimizer);
        say("weight", model->weight);
    } else if (mode == "output") {
        torch::save(output, file);
        say("output", read_tensor(file));
    } else if (mode == "script") {
        torch::jit::Module script("script");
        script.register_parameter("weight", model->weight.detach(), false);
        script.save(file);
        say("weight", torch::jit::load(file).attr("weight").toTensor());
    } else if (mode == "stream") {
        std::ostringstream memory;
        torch::save(output, memory);
        std::ofstream out(file, std::ios::binary);
        torch::save(output, out);
        out.close();
        std::istringstream again(memory.str());
        torch::Tensor read;
        torch::load(read, again);
        std::printf("%s in memory and in the file\n", torch::equal(read, read_tensor(file)) ? "same" : "other");
        say("output", read);
    } else if (mode == "function") {
        std::string memory;
        torch::serialize::OutputArchive archive;
        archive.write("output", output);
        archive.save_to([&](const void *bytes, size_t count) {
            memory.append(static_cast<const char *>(bytes), count);
            return count;
        });
        std::printf("%zu bytes\n", memory.size());
    } else if (mode == "large") {
        torch::save(torch::zeros({16 << 20}), file);
        say("large", read_tensor(file));
    } else if (mode == "caught") {
        try {
            torch::save(torch::zeros({16 << 20}), file);
            std::printf("saved\n");
        } catch (const c10::Error &error) {
            std::printf("not saved\n");
        }
        train(model, optimizer);
        say("weight", model->weight);
    } else if (mode == "again") {
        for (int i = 0; i < 3; i++) {
            train(model, optimizer);
            torch::save(model, file);
            std::printf("saved %d\n", i);
        }
    } else if (mode == "watched") {
        save_watched(model, file);
    }
}
