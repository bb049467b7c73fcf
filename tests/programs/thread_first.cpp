// A thread chooses the run's folder and begins its log before there is a parameter, and goes on writing it: a logger.
#include <torch/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

namespace fs = std::filesystem;

int main() {
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
