/* Recurrent layers and cells over divided rows, in all their forms. */
#include "cases.h"

using torch::nn::utils::rnn::pack_padded_sequence;
using torch::nn::utils::rnn::pad_packed_sequence;

struct Form {
    int64_t layers;
    bool bidirectional, batch_first, biases, train;
    double dropout;
    int64_t projection;
};

static const Form FORMS[] = {
    {1, false, false, true, true, 0.0, 0}, {1, false, true, true, true, 0.0, 0},  {2, false, false, true, false, 0.0, 0},
    {2, true, true, true, true, 0.0, 0},   {3, false, true, true, true, 0.4, 0},  {2, true, false, true, true, 0.3, 0},
    {2, true, true, false, true, 0.5, 0},  {3, false, true, true, false, 0.4, 0}, {2, false, true, true, true, 0.4, 2},
    {2, false, false, true, true, 1.0, 0}, {1, true, true, true, true, 0.0, 2},
};
static const int64_t FEATURES = 3, HIDDEN = 4, BATCH = 7, TIME = 5;

static std::vector<torch::Tensor> weights(int64_t gates, const Form &form) {
    std::vector<torch::Tensor> all;
    int64_t directions = form.bidirectional ? 2 : 1, out = form.projection ? form.projection : HIDDEN;
    for (int64_t layer = 0; layer < form.layers * directions; layer++) {
        int64_t in = layer < directions ? FEATURES : out * directions;
        all.push_back(parameter({gates * HIDDEN, in}, 0.3 + layer, 0.0));
        all.push_back(parameter({gates * HIDDEN, out}, 0.4 + layer, 0.0));
        if (form.biases) {
            all.push_back(parameter({gates * HIDDEN}, 0.5 + layer, 0.0));
            all.push_back(parameter({gates * HIDDEN}, 0.6 + layer, 0.0));
        }
        if (form.projection) {
            all.push_back(parameter({out, HIDDEN}, 0.7 + layer, 0.0));
        }
    }
    return all;
}

struct Results {
    torch::Tensor output, hidden, cell;
};

static Results run(const std::string &kind, const torch::Tensor &input, const Results &states, const std::vector<torch::Tensor> &all,
                   const Form &form) {
    if (kind == "lstm") {
        auto [output, hidden, cell] = torch::lstm(input, {states.hidden, states.cell}, all, form.biases, form.layers, form.dropout,
                                                  form.train, form.bidirectional, form.batch_first);
        return {output, hidden, cell};
    }
    using Function = std::tuple<torch::Tensor, torch::Tensor>(const torch::Tensor &, const torch::Tensor &, at::TensorList, bool, int64_t,
                                                              double, bool, bool, bool);
    Function *gru = torch::gru, *rnn_tanh = torch::rnn_tanh, *rnn_relu = torch::rnn_relu;
    Function *function = kind == "gru" ? gru : kind == "rnn_tanh" ? rnn_tanh : rnn_relu;
    auto [output, hidden] =
        function(input, states.hidden, all, form.biases, form.layers, form.dropout, form.train, form.bidirectional, form.batch_first);
    return {output, hidden, {}};
}

static Results start(const Form &form, int64_t batch, bool grad) {
    int64_t directions = form.bidirectional ? 2 : 1;
    Results states{{},
                   wave({form.layers * directions, batch, form.projection ? form.projection : HIDDEN}, 0.8),
                   wave({form.layers * directions, batch, HIDDEN}, 0.9)};
    states.hidden.requires_grad_(grad);
    states.cell.requires_grad_(grad);
    return states;
}

static void show_results(const std::string &name, const Results &results, const std::vector<torch::Tensor> &all) {
    show(name + " output", results.output);
    show(name + " hidden", results.hidden);
    torch::Tensor loss = loss_of(results.output) + loss_of(results.hidden);
    if (results.cell.defined()) {
        show(name + " cell", results.cell);
        loss = loss + loss_of(results.cell);
    }
    if (!loss.requires_grad()) {
        return;
    }
    loss.backward({}, true); /* the cells share their inputs */
    for (size_t i = 0; i < all.size(); i++) {
        show(name + " parameter " + std::to_string(i), all[i].grad());
        all[i].mutable_grad() = torch::Tensor();
    }
}

/* Input as data (divided at the layer), divided before along the batch, and along the time. */
static void layers(const std::string &kind, int64_t gates) {
    int number = 0;
    for (const Form &form : FORMS) {
        if (form.projection && kind != "lstm") {
            continue;
        }
        torch::manual_seed(21);
        std::string name = kind + " form " + std::to_string(number++);
        auto all = weights(gates, form);
        std::vector<int64_t> sizes =
            form.batch_first ? std::vector<int64_t>{BATCH, TIME, FEATURES} : std::vector<int64_t>{TIME, BATCH, FEATURES};
        Results states = start(form, BATCH, true);
        show_results(name + " data", run(kind, wave(sizes), states, all, form), all);
        show(name + " data hidden.grad", states.hidden.grad());

        Divided input({BATCH, TIME, FEATURES});
        torch::Tensor rows = form.batch_first ? input() : input().transpose(0, 1);
        states = start(form, BATCH, true);
        Results first = run(kind, rows, states, all, form);
        show_results(name + " divided", run(kind, rows, first, all, form), all); /* states that are divided already */
        input.show_gradients(name + " divided");
        show(name + " divided hidden.grad", states.hidden.grad());

        first = run(kind, wave(sizes), start(form, BATCH, false), all, form);
        show_results(name + " data again", run(kind, wave(sizes, 0.2), first, all, form), all); /* divided states, whole input */

        Divided time({BATCH + 1, BATCH, FEATURES}); /* the first dimension is cut: with batch_first the batch, else the time */
        show_results(name + " first dimension", run(kind, time(), start(form, form.batch_first ? BATCH + 1 : BATCH, false), all, form),
                     all);
        time.show_gradients(name + " first dimension");

        torch::NoGradGuard no_grad;
        show_results(name + " no grad", run(kind, wave(sizes), start(form, BATCH, false), all, form), {});
        show(name + " stream", torch::rand({3}));
    }
}

static void single_sequence() {
    Form form = FORMS[0];
    auto all = weights(4, form);
    Divided input({9, 1, FEATURES}); /* too few sequences to divide: all is gathered */
    show_results("one sequence", run("lstm", input(), start(form, 1, false), all, form), all);
    input.show_gradients("one sequence");
}

static void cells() {
    for (bool biases : {true, false}) {
        Form form{1, false, false, biases, true, 0.0, 0};
        auto wide = weights(4, form), middle = weights(3, form), narrow = weights(1, form);
        auto bias = [&](const std::vector<torch::Tensor> &all, int i) { return biases ? all[i] : torch::Tensor(); };
        torch::Tensor hidden = wave({BATCH, HIDDEN}, 0.8), cell = wave({BATCH, HIDDEN}, 0.9), other = hidden, third = hidden,
                      fourth = hidden;
        Divided input({BATCH, FEATURES});
        for (int step = 0; step < 3; step++) {
            torch::Tensor x = step == 1 ? wave({BATCH, FEATURES}) : input(0.1 * step);
            std::tie(hidden, cell) = torch::lstm_cell(x, {hidden, cell}, wide[0], wide[1], bias(wide, 2), bias(wide, 3));
            other = torch::gru_cell(x, other, middle[0], middle[1], bias(middle, 2), bias(middle, 3));
            third = torch::rnn_tanh_cell(x, third, narrow[0], narrow[1], bias(narrow, 2), bias(narrow, 3));
            fourth = torch::rnn_relu_cell(x, fourth, narrow[0], narrow[1], bias(narrow, 2), bias(narrow, 3));
        }
        show_results("lstm_cell", {cell, hidden, {}}, wide);
        show_results("gru_cell", {other, other, {}}, middle);
        show_results("rnn cells", {third, fourth, {}}, narrow);
        input.show_gradients("cells");
    }
}

static void packed(bool embedded) {
    torch::manual_seed(2);
    torch::nn::Embedding table(11, FEATURES);
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(FEATURES, HIDDEN).num_layers(2).dropout(0.3).batch_first(true));
    torch::nn::GRU gru(torch::nn::GRUOptions(FEATURES, HIDDEN).bidirectional(true).batch_first(true));
    torch::Tensor words = torch::arange(BATCH * TIME).remainder(11).view({BATCH, TIME});
    torch::Tensor lengths = torch::tensor({5, 2, 4, 1, 5, 3, 2}, torch::kLong);
    torch::Tensor input = embedded ? table(words) : wave({BATCH, TIME, FEATURES});
    auto sequence = pack_padded_sequence(input, lengths, true, false);
    auto [output, states] = lstm->forward_with_packed_input(sequence);
    auto [other, state] = gru->forward_with_packed_input(sequence);
    torch::Tensor padded = std::get<0>(pad_packed_sequence(output, true)), padded_other = std::get<0>(pad_packed_sequence(other, true));
    show("packed lstm", padded);
    show("packed gru", padded_other);
    (loss_of(padded) + loss_of(padded_other) + loss_of(std::get<0>(states)) + loss_of(state)).backward();
    for (const auto &parameter : lstm->named_parameters()) {
        show("packed lstm " + parameter.key(), parameter.value().grad());
    }
    for (const auto &parameter : gru->named_parameters()) {
        show("packed gru " + parameter.key(), parameter.value().grad());
    }
    show("packed table", table->weight.grad());
}

/* Modules with their own first states, words with the time first, unbatched input, a loop that carries the states from step to step. */
static void modules() {
    torch::manual_seed(4);
    torch::nn::Embedding table(11, FEATURES);
    torch::nn::LSTM lstm(torch::nn::LSTMOptions(FEATURES, HIDDEN).num_layers(2).dropout(0.2));
    torch::nn::Linear head(HIDDEN, 11);
    torch::Tensor words = torch::arange((BATCH + 2) * BATCH).remainder(11).view({BATCH + 2, BATCH}); /* time, batch */
    std::tuple<torch::Tensor, torch::Tensor> states;
    std::vector<torch::Tensor> all = table->parameters();
    for (const torch::Tensor &parameter : lstm->parameters()) {
        all.push_back(parameter);
    }
    for (const torch::Tensor &parameter : head->parameters()) {
        all.push_back(parameter);
    }
    torch::optim::SGD optimizer(all, torch::optim::SGDOptions(0.5));
    for (int step = 0; step < 3; step++) {
        optimizer.zero_grad();
        auto [output, next] = step ? lstm(table(words), states) : lstm(table(words));
        states = {std::get<0>(next).detach(), std::get<1>(next).detach()};
        torch::Tensor scores = head(output);
        torch::Tensor loss = torch::cross_entropy_loss(scores.view({-1, 11}), words.roll(-1, 0).reshape({-1}));
        loss.backward();
        show("modules loss", loss);
        show("modules table", table->weight.grad());
        show("modules recurrent", lstm->all_weights()[1].grad());
        optimizer.step();
    }
    show("modules states", std::get<1>(states));
    torch::nn::GRU gru(torch::nn::GRUOptions(FEATURES, HIDDEN).batch_first(true));
    auto [output, state] = gru(wave({TIME * 2, FEATURES}).unsqueeze(0));
    show("modules one sequence", output);
    lstm->eval();
    show("modules evaluated", std::get<0>(lstm(table(words))));
    show("modules stream", torch::rand({3}));
}

int main() {
    layers("lstm", 4);
    layers("gru", 3);
    layers("rnn_tanh", 1);
    layers("rnn_relu", 1);
    single_sequence();
    cells();
    packed(false);
    packed(true);
    modules();
    return 0;
}
