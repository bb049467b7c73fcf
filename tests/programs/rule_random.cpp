/* Random draws over divided rows: each case prints values, gradients and where the stream stands afterwards. */
#include "cases.h"

#include <functional>

/* Where the stream stands: equal only when as much was drawn, in the same way, as in one process. */
static void show_stream(const std::string &name) {
    show(name + " stream", torch::rand({3}));
}

static void in_place(const std::string &name, torch::ScalarType type, const std::function<void(torch::Tensor &)> &draw) {
    torch::manual_seed(7);
    for (int form = 0; form < 6; form++) {
        Divided input({7, 3, 4});
        torch::Tensor tensor = torch::zeros_like(input().detach(), type);
        torch::Tensor part = form == 0   ? tensor
                             : form == 1 ? tensor.transpose(0, 1)
                             : form == 2 ? tensor.permute({2, 0, 1})
                             : form == 3 ? tensor.slice(2, 0, 3)
                             : form == 4 ? tensor.transpose(0, 2).slice(1, 0, 2)
                                         : tensor.select(1, 1);
        draw(part);
        show(name + " form " + std::to_string(form), tensor);
    }
    /* a tensor whose memory is in another order: rows inside */
    Divided input({7, 5});
    torch::Tensor turned = torch::zeros_like(input().detach().t(), torch::TensorOptions(type));
    draw(turned);
    show(name + " turned", turned);
    show_stream(name);
}

static void in_place_draws() {
    for (torch::ScalarType type : {torch::kFloat, torch::kDouble}) {
        in_place("bernoulli_", type, [](torch::Tensor &tensor) { tensor.bernoulli_(0.3); });
        in_place("normal_", type, [](torch::Tensor &tensor) { tensor.normal_(1.0, 2.0); });
        in_place("uniform_", type, [](torch::Tensor &tensor) { tensor.uniform_(-1.0, 2.0); });
        in_place("exponential_", type, [](torch::Tensor &tensor) { tensor.exponential_(1.5); });
        in_place("geometric_", type, [](torch::Tensor &tensor) { tensor.geometric_(0.4); });
        in_place("cauchy_", type, [](torch::Tensor &tensor) { tensor.cauchy_(0.0, 1.0); });
        in_place("log_normal_", type, [](torch::Tensor &tensor) { tensor.log_normal_(0.0, 0.5); });
    }
    for (torch::ScalarType type : {torch::kLong, torch::kInt, torch::kFloat}) {
        in_place("random_", type, [](torch::Tensor &tensor) { tensor.random_(); });
        in_place("random_ to", type, [](torch::Tensor &tensor) { tensor.random_(10); });
        in_place("random_ from", type, [](torch::Tensor &tensor) { tensor.random_(-5, 5); });
    }
    in_place("bernoulli_ bool", torch::kBool, [](torch::Tensor &tensor) { tensor.bernoulli_(0.6); });
}

/* normal_ fills contiguous tensors of 16 and more elements in another way than small ones: a rank's few rows must not choose. */
static void small_and_large() {
    torch::manual_seed(3);
    for (int64_t width : {1, 2, 3, 5, 40}) {
        Divided input({7, width});
        torch::Tensor tensor = torch::zeros_like(input().detach());
        show("normal_ width " + std::to_string(width), tensor.normal_());
        show("randn_like width " + std::to_string(width), torch::randn_like(tensor));
    }
    show_stream("small and large");
}

static void with_generator() {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(11);
    Divided input({7, 4});
    torch::manual_seed(1);
    torch::Tensor tensor = torch::zeros_like(input().detach());
    for (int step = 0; step < 3; step++) {
        show("own generator", tensor.normal_(0.0, 1.0, generator));
        show("own generator", tensor.bernoulli_(0.5, generator));
    }
    show("own generator bernoulli", torch::bernoulli(torch::sigmoid(input().detach()), generator));
    show("own generator stream", torch::rand({3}, generator));
    show_stream("own generator");
}

static void probabilities() {
    torch::manual_seed(5);
    Divided input({7, 4});
    torch::Tensor tensor = torch::zeros_like(input().detach());
    show("p divided", tensor.bernoulli_(torch::sigmoid(input().detach())));
    torch::Tensor linked = torch::empty_like(input()).bernoulli_(torch::sigmoid(input()));
    show("p with a history", linked);
    loss_of(linked * input()).backward();
    input.show_gradients("p with a history");
    show("p replicated", tensor.bernoulli_(torch::sigmoid(wave({7, 4}))));
    show("p of a row", tensor.bernoulli_(torch::sigmoid(wave({4}))));
    torch::Tensor drawn = torch::bernoulli(torch::sigmoid(input()));
    show("bernoulli", drawn);
    loss_of(drawn * input()).backward();
    input.show_gradients("bernoulli");
    show("bernoulli.p", torch::bernoulli(input().detach(), 0.3));
    show("bernoulli.p of a history", torch::bernoulli(input(), 0.3));
    torch::Tensor weights = torch::softmax(input(), 1);
    show("multinomial", torch::multinomial(weights.detach(), 2));
    show("multinomial replaced", torch::multinomial(weights.detach(), 3, true));
    show("normal of a mean", at::normal(input().detach(), 0.5));
    show("normal of a deviation", at::normal(0.5, torch::sigmoid(input().detach())));
    show("normal of both", at::normal(input().detach(), torch::sigmoid(input().detach())));
    show("poisson", torch::poisson(torch::sigmoid(input().detach()) * 4));
    torch::Tensor gamma = torch::_standard_gamma(torch::sigmoid(input()) + 0.5);
    show("gamma", gamma);
    loss_of(gamma).backward();
    input.show_gradients("gamma");
    show_stream("probabilities");
}

static void like() {
    torch::manual_seed(9);
    Divided input({7, 3, 4});
    for (const torch::Tensor &tensor : {input().detach(), input().detach().transpose(0, 1), input().detach().slice(2, 0, 3), input()}) {
        torch::Tensor noise = torch::randn_like(tensor);
        show("randn_like", noise);
        show("rand_like", torch::rand_like(tensor));
        show("rand_like double", torch::rand_like(tensor, torch::kDouble));
        show("randint_like", torch::randint_like(tensor, 10));
        show("randint_like low", torch::randint_like(tensor, -3, 10, torch::kLong));
        show("empty_like", torch::empty_like(tensor).uniform_());
    }
    torch::Tensor hidden = input();
    loss_of(hidden + torch::randn_like(hidden) * torch::exp(0.5 * hidden)).backward();
    input.show_gradients("reparametrised");
    show_stream("like");
}

static void dropouts(bool training, double p) {
    torch::manual_seed(13);
    std::string of = training ? " p " + std::to_string(p) : " off";
    auto finish = [&](const std::string &name, Divided &input, const torch::Tensor &output) {
        show(name + of, output);
        loss_of(output).backward();
        input.show_gradients(name + of);
    };
    Divided flat({7, 6}), image({7, 3, 2, 4});
    finish("dropout", flat, torch::dropout(flat(), p, training));
    torch::Tensor changed = flat();
    finish("dropout_", flat, torch::dropout_(changed, p, training));
    finish("dropout transposed", image, torch::dropout(image().transpose(0, 1), p, training));
    finish("feature_dropout", image, torch::feature_dropout(image(), p, training));
    finish("alpha_dropout", flat, torch::alpha_dropout(flat(), p, training));
    finish("feature_alpha_dropout", image, torch::feature_alpha_dropout(image(), p, training));
    changed = image();
    finish("feature_dropout_", image, torch::feature_dropout_(changed, p, training));
    auto native = torch::native_dropout(flat(), p, training);
    show("native_dropout mask" + of, std::get<1>(native));
    finish("native_dropout", flat, std::get<0>(native));
    native = torch::native_dropout(image().transpose(0, 1), p, training);
    finish("native_dropout transposed", image, std::get<0>(native));
    show_stream("dropout" + of);
}

static void rrelus() {
    torch::manual_seed(17);
    Divided input({7, 6});
    torch::nn::RReLU module;
    for (bool training : {true, false}) {
        torch::Tensor output = torch::rrelu(input(), 0.1, 0.4, training);
        show("rrelu", output);
        loss_of(output).backward();
        input.show_gradients("rrelu");
        torch::Tensor changed = input().transpose(0, 1).clone();
        loss_of(torch::rrelu_(changed, 0.1, 0.4, training)).backward();
        show("rrelu_", changed);
        input.show_gradients("rrelu_");
        training ? module->train() : module->eval();
        show("rrelu module", module(input()));
    }
    show_stream("rrelu");
}

int main() {
    in_place_draws();
    small_and_large();
    with_generator();
    probabilities();
    like();
    for (double p : {0.3, 0.5, 0.0, 1.0}) {
        dropouts(true, p);
    }
    dropouts(false, 0.5);
    rrelus();
    torch::NoGradGuard no_grad;
    Divided input({7, 6});
    show("no grad dropout", torch::dropout(input(), 0.4, true));
    show("no grad bernoulli", torch::bernoulli(torch::sigmoid(input())));
    show_stream("no grad");
    return 0;
}
