// A small training run that one of its processes ends, or stops, at a place that can be named.
//
//   faulty [epochs [what place step rank [buffered]]]
//
// what: kill (SIGKILL), exit (exit code 7), hang (for ever), stop (an operator that accel-run refuses, in forward of all ranks). buffered: what is printed stays in libc's
// buffer where the output is a file or a pipe. place: start (before libtorch is used), data (reading a batch), forward, backward, save,
// evaluation. The process whose number in ACCEL_RUN_RANK is the one named does it, in the step named. The moment of a kill is that of .nv/killed, where there is a
// folder .nv.
#include <torch/torch.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/syscall.h>
#include <unistd.h>

static std::string what, place;
static int at_step, step = 1;

static void here(const std::string &name) {
    if (name != place || step != at_step || what == "stop")
        return;
    if (what == "kill") {
        syscall(SYS_creat, ".nv/killed", 0644); // what libc would do with files is watched
        raise(SIGKILL);
    }
    if (what == "exit")
        std::exit(7);
    for (;;)
        pause();
}

// The identity, with a backward that passes through `here`.
struct Passage : torch::autograd::Function<Passage> {
    static torch::Tensor forward(torch::autograd::AutogradContext *, const torch::Tensor &x) { return x.view_as(x); }
    static torch::autograd::tensor_list backward(torch::autograd::AutogradContext *, torch::autograd::tensor_list gradients) {
        here("backward");
        return gradients;
    }
};

struct Samples : torch::data::Dataset<Samples> {
    torch::Tensor inputs = torch::randn({48, 8}), targets = torch::randint(0, 4, {48});
    torch::data::Example<> get(size_t index) override {
        here("data");
        return {inputs[index], targets[index]};
    }
    torch::optional<size_t> size() const override { return 48; }
};

struct NetImpl : torch::nn::Module {
    torch::nn::Linear first{register_module("first", torch::nn::Linear(8, 16))}, last{register_module("last", torch::nn::Linear(16, 4))};
    torch::Tensor forward(const torch::Tensor &x) {
        torch::Tensor hidden = torch::relu(first(x));
        if (what == "stop" && step == at_step)
            hidden.detach().resize_({3});
        here(is_training() ? "forward" : "evaluation");
        return torch::nn::functional::linear(hidden, Passage::apply(last->weight), last->bias);
    }
    void save(torch::serialize::OutputArchive &archive) const override {
        here("save");
        torch::nn::Module::save(archive);
    }
};
TORCH_MODULE(Net);

int main(int argc, char **argv) {
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    const int epochs = argc > 1 ? std::atoi(argv[1]) : 2;
    if (argc <= 6)
        std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ); // a line at a time, also into a pipe
    if (argc > 5 && (std::string(argv[5]) == (rank ? rank : "0") || std::string(argv[2]) == "stop")) {
        what = argv[2];
        place = argv[3];
        at_step = std::atoi(argv[4]);
    }
    here("start");
    torch::manual_seed(1);
    Net model;
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    auto loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(Samples().map(torch::data::transforms::Stack<>()), 16);
    for (int epoch = 0; epoch < epochs; epoch++) {
        model->train();
        for (auto &batch : *loader) {
            optimizer.zero_grad();
            auto loss = torch::nn::functional::cross_entropy(model(batch.data), batch.target);
            loss.backward();
            optimizer.step();
            std::printf("step %d loss %.5f\n", step, loss.item<double>());
            step++;
        }
        model->eval();
        torch::NoGradGuard no_grad;
        double sum = 0;
        for (auto &batch : *loader)
            sum += model(batch.data).sum().item<double>();
        std::printf("evaluation %.5f\n", sum);
        torch::save(model, "model.pt");
    }
}
