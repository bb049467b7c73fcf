// A thread chooses the run's folder and begins its log before there is a parameter, and goes on writing it: a logger.
// With an argument, a thread that logs the start comes first on rank 0, and main() with its first parameter on the others.
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <string>
#include <thread>

namespace fs = std::filesystem;

static int logged_beside() {
    const char *rank = std::getenv("ACCEL_RUN_RANK");
    const bool is_first = !rank || std::string(rank) == "0";
    std::promise<void> log_is_there, model_is_there;
    std::thread logger([&] {
        if (!is_first) {
            model_is_there.get_future().wait();
        }
        std::ofstream("beside.log") << "started\n";
        log_is_there.set_value();
    });
    if (is_first) {
        log_is_there.get_future().wait();
    }
    torch::manual_seed(1);
    torch::nn::Linear model(4, 3);
    model_is_there.set_value();
    for (int step = 0; step < 3; step++) {
        auto loss = (model(torch::randn({11, 4})) * 0.5).pow(2).mean();
        loss.backward();
        std::printf("loss %.4f\n", loss.item<double>());
    }
    logger.join();
    return 0;
}

int main(int argc, char **) {
    if (argc > 1) {
        return logged_beside();
    }
    fs::path run;
    std::ofstream log;
    std::thread([&] {
        for (int i = 1; fs::exists(run = "run" + std::to_string(i)); i++) {
        }
        fs::create_directory(run);
        log.open("thread.log", std::ios::app);
        log << run.string() << std::endl;
    }).join();
    torch::manual_seed(1);
    torch::nn::Linear model(4, 3);
    for (int step = 0; step < 3; step++) {
        std::thread([&] { log << "step " << step << std::endl; }).join();
        auto loss = model(torch::randn({11, 4})).pow(2).mean();
        loss.backward();
        std::printf("loss %.4f\n", loss.item<double>());
    }
    torch::save(model, (run / "model.pt").string());
    std::ifstream read("thread.log");
    std::cout << run.string() << ":\n" << read.rdbuf();
}
