// Trains a little and does with files what training programs do. Prints what it reads and learns about them.
//
//   files DIRECTORY       makes, reads back, renames, removes, appends; the directory then holds what a plain run leaves
//   files DIRECTORY kill  writes files for ever, by std::ofstream, by torch::save, by rename, in directories: for being killed
//   files DIRECTORY list  lists, by what libc lists by itself
//   files DIRECTORY full  writes more than there is room for
#include <torch/torch.h>

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

namespace fs = std::filesystem;

static std::ofstream early("early.log"); // before main, before any parameter

static std::string read_all(const fs::path &path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) {
        return "(cannot be read)";
    }
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
}

static void write_all(const fs::path &path, const std::string &text, std::ios::openmode mode = std::ios::trunc) {
    std::ofstream out(path, std::ios::binary | mode);
    out << text;
}

static void say(const char *what, int result) {
    std::printf("%s: %s\n", what, result < 0 ? std::strerror(errno) : "ok");
}

struct Training {
    torch::nn::Linear model{4, 3};
    torch::optim::SGD optimizer{model->parameters(), 0.1};

    double step() {
        optimizer.zero_grad();
        auto loss = model->forward(torch::randn({11, 4})).pow(2).mean();
        loss.backward();
        optimizer.step();
        // ranks come to what follows at different times
        volatile double busy = 0;
        for (int i = 0; i < getpid() % 5 * 400000; i++) {
            busy = busy + i;
        }
        return loss.item<double>();
    }
};

// A run's directory: the first that does not exist, as many programs choose it.
static fs::path new_run() {
    for (int i = 1;; i++) {
        fs::path path = "run" + std::to_string(i);
        if (!fs::exists(path)) {
            fs::create_directories(path / "checkpoints");
            return path;
        }
    }
}

// Written, read back, the best one renamed, the last three kept.
static void checkpoints(Training &training, const fs::path &run) {
    for (int epoch = 0; epoch < 6; epoch++) {
        std::ostringstream weights;
        weights.precision(2);
        weights << "epoch " << epoch << " loss " << training.step() << "\n";
        const auto file = run / "checkpoints" / ("epoch" + std::to_string(epoch) + ".txt");
        write_all(file.string() + ".tmp", weights.str() + std::string(100000, 'x'));
        fs::rename(file.string() + ".tmp", file);
        std::printf("%d read back: %d\n", epoch, read_all(file).size() == weights.str().size() + 100000);
        write_all(run / "latest", file.filename().string());
        write_all(run / "history.csv", std::to_string(epoch) + "\n", std::ios::app);
        if (epoch >= 3) {
            fs::remove(run / "checkpoints" / ("epoch" + std::to_string(epoch - 3) + ".txt"));
        }
        int count = 0;
        for (auto &entry : fs::directory_iterator(run / "checkpoints")) {
            count += entry.is_regular_file();
        }
        std::printf("%d checkpoints, history of %zu bytes, latest %s\n", count, fs::file_size(run / "history.csv"), read_all(run / "latest").c_str());
    }
}

static int visited;

static int visit(const char *, const struct stat *, int, struct FTW *) {
    return visited++, 0;
}

// Where names lead that libc follows by itself: of open files, through links, and of a folder that each rank spells differently.
static void follow_names() {
    const fs::path run = "run_" + std::to_string(getpid());
    fs::create_directory(run);
    std::ofstream open_file(run / "open.pt");
    fs::create_directory_symlink(run, "newest");
    for (const fs::path &name : {run, run / "open.pt", run / "../" / run / "open.pt"}) {
        const fs::path whole = fs::canonical(name), here = fs::relative(name), own = name == run ? run : run / "open.pt";
        std::printf("canonical %d, relative %d, the same %d\n", whole == fs::current_path() / own, here == own, fs::equivalent(whole, name));
    }
    std::printf("through a link %d\n", fs::canonical("newest/open.pt").filename() == "open.pt");
    std::error_code error;
    (void)fs::canonical(run / "none", error);
    std::printf("none: %s, through a file: %d\n", error.message().c_str(), realpath((run / "open.pt/").c_str(), nullptr) == nullptr);
    std::printf("weakly %d, space %d %d\n", fs::weakly_canonical(run / "none/x") == fs::current_path() / run / "none/x", fs::space(run).capacity > 0,
                fs::space(run / "open.pt").capacity == fs::space(".").capacity);
    glob_t found;
    glob((run.string() + "/*.pt").c_str(), 0, nullptr, &found);
    std::printf("glob of it %zu, relative %d\n", found.gl_pathc, found.gl_pathc && found.gl_pathv[0][0] != '/');
    globfree(&found);
    open_file.close();
    fs::remove_all(run);
    fs::remove("newest");
}

// What libc lists by itself, while a file is open.
static int list_by_libc() {
    Training().step();
    fs::create_directory("listed");
    std::ofstream log("listed/open.log");
    glob_t found;
    glob("listed/*.log", 0, nullptr, &found);
    struct dirent **names;
    const int count = scandir("listed", &names, nullptr, alphasort);
    nftw("listed", visit, 8, FTW_PHYS);
    std::printf("glob %zu, scandir %d, nftw %d\n", found.gl_pathc, count, visited);
    globfree(&found);
    for (int i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
    follow_names();
    return 0;
}

static void c_functions() {
    say("mkdir", mkdir("dir", 0777));
    say("mkdir again", mkdir("dir", 0777));
    int lock = open("dir/lock", O_CREAT | O_EXCL | O_WRONLY, 0644);
    say("lock", lock);
    say("second lock", open("dir/lock", O_CREAT | O_EXCL | O_WRONLY, 0644));
    close(lock);
    say("unlink", unlink("dir/lock"));
    say("unlink again", unlink("dir/lock"));
    say("missing directory", open("nowhere/file", O_CREAT | O_WRONLY, 0644));
    say("symlink", symlink("dir", "link"));
    say("rmdir of a link", rmdir("link"));
    say("rename over a directory", rename("link", "dir"));

    FILE *file = std::fopen("dir/table.csv", "w+");
    std::fprintf(file, "a,b\n1,2\n");
    std::printf("at %ld\n", std::ftell(file));
    std::rewind(file);
    char line[16];
    std::printf("first line %s", std::fgets(line, sizeof line, file));
    // still open: its name shows what is written out
    std::fflush(file);
    struct stat status;
    say("stat of an open file", stat("dir/table.csv", &status));
    std::printf("%ld bytes, read by name: %zu\n", static_cast<long>(status.st_size), read_all("dir/table.csv").size());
    say("chmod", chmod("dir/table.csv", 0640));
    std::fclose(file);

    file = std::fopen("dir/table.csv", "r+");
    std::fseek(file, 4, SEEK_SET);
    std::fputs("3", file);
    std::fclose(file);
    std::printf("changed in place: %s", read_all("dir/table.csv").c_str());
    say("truncate", truncate("dir/table.csv", 4));
    std::printf("cut: %s", read_all("dir/table.csv").c_str());

    int mapped = open("dir/mapped", O_RDWR | O_CREAT | O_TRUNC, 0666);
    say("ftruncate", ftruncate(mapped, 4096));
    char *memory = static_cast<char *>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, mapped, 0));
    close(mapped);
    std::strcpy(memory, "through memory");
    munmap(memory, 4096);

    char name[] = "dir/scratch-XXXXXX";
    int scratch = mkstemp(name);
    say("mkstemp", static_cast<int>(write(scratch, "whole", 5)));
    close(scratch);
    say("renamed into place", rename(name, "dir/from_scratch"));
    std::printf("pid in the name: %s\n", [] {
        const std::string path = "dir/part." + std::to_string(getpid());
        write_all(path, "by its pid");
        const std::string seen = fs::exists(path) ? read_all(path) : "not there";
        fs::rename(path, "dir/done");
        return seen;
    }().c_str());
}

static int fill_disk() {
    Training training;
    training.step();
    write_all("file", "old");
    int failures = 0;
    for (int i = 0; i < 3; i++) {
        std::ofstream out("file");
        const std::string block(1 << 20, 'x');
        for (int j = 0; j < 64; j++) {
            out << block;
        }
        out.close();
        failures += !out;
        training.step();
    }
    std::printf("%d of 3 failed\n", failures);
    return 0;
}

// A file says in every line which number it has; it is written in pieces, so that most of the time one is incomplete.
static void write_pieces(const fs::path &path, int number) {
    std::ofstream out(path);
    for (int piece = 0; piece < 20000; piece++) {
        out << number << "\n" << std::flush;
    }
}

// A checkpoint is a directory, which has its name when all is in it. Two are kept.
static void write_checkpoint(const torch::nn::Linear &model, int number) {
    fs::create_directories("writing");
    torch::save(model, "writing/model.pt");
    write_pieces("writing/number", number);
    fs::rename("writing", "checkpoint-" + std::to_string(number));
    fs::remove_all("checkpoint-" + std::to_string(number - 2));
}

static int next_checkpoint() {
    int next = 0;
    for (const auto &entry : fs::directory_iterator(".")) {
        const std::string name = entry.path().filename();
        if (name.rfind("checkpoint-", 0) == 0)
            next = std::max(next, std::stoi(name.substr(11)) + 1);
    }
    return next;
}

static int write_for_ever() {
    Training training;
    torch::nn::Linear large(300, 300);
    torch::optim::Adam adam(large->parameters());
    large(torch::ones({2, 300})).sum().backward();
    adam.step();
    for (int i = next_checkpoint();; i++) {
        if (i % 50 == 0) {
            training.step();
        }
        write_pieces("whole", i);
        write_pieces("numbered" + std::to_string(i % 4), i);
        write_pieces("renamed.tmp", i);
        fs::rename("renamed.tmp", "renamed");
        torch::save(large, "model.pt");
        torch::save(adam, "optimizer.pt");
        write_checkpoint(large, i);
        std::cout << i << std::endl;
    }
}

int main(int argc, char **argv) {
    if (argc < 2 || chdir(argv[1])) {
        return 2;
    }
    torch::manual_seed(3);
    const std::string mode = argc > 2 ? argv[2] : "";
    if (mode == "kill") {
        return write_for_ever();
    }
    if (mode == "list") {
        return list_by_libc();
    }
    if (mode == "full") {
        return fill_disk();
    }
    std::ofstream log("log.txt", std::ios::app);
    log << "starts" << std::endl;
    const auto run = new_run();
    Training training;
    checkpoints(training, run);
    c_functions();
    training.step();
    log << "ends" << std::endl;
    std::printf("log of %zu bytes\n", fs::file_size("log.txt"));
    if (!std::freopen("stdout.txt", "w", stdout)) {
        return 3;
    }
    std::printf("after freopen\n");
    return 0;
}
