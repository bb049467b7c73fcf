/* Modules of torch::nn that are not in rule_sweep.cpp, its losses with each reduction and with weights, its functions, those of one
   header of libtorch together, and its utilities. rules_b.bats looks whether each name that the headers have occurs here or there. */
#include "rule_case.h"

namespace F = torch::nn::functional;
namespace nn = torch::nn;

#define LINES(name, ...) IMAGE(name, [&](const torch::Tensor &h) { return __VA_ARGS__; }(h.flatten(2)))
#define VOLUME(name, ...) IMAGE(name, [&](const torch::Tensor &h) { return __VA_ARGS__; }(h.view({-1, 2, 2, 6, 6})))

static torch::Tensor together(const std::vector<torch::Tensor> &results) {
    torch::Tensor total = torch::zeros({}, torch::kDouble);
    for (size_t i = 0; i < results.size(); i++) {
        total = total + weigh(results[i]) * (1 + 0.1 * static_cast<double>(i));
    }
    return total;
}

static torch::Tensor both(const std::tuple<torch::Tensor, torch::Tensor> &results) {
    return together({std::get<0>(results), std::get<1>(results)});
}

template <typename Unpool> static torch::Tensor unpooled(const std::tuple<torch::Tensor, torch::Tensor> &pooled, Unpool unpool) {
    return unpool(std::get<0>(pooled), std::get<1>(pooled));
}

static Cases activations() {
    return {
        FLAT(gelu_tanh, nn::GELU(nn::GELUOptions().approximate("tanh"))(h))
        FLAT(gelu, nn::GELU()(h))
        FLAT(hardshrink, nn::Hardshrink()(h))
        FLAT(mish, nn::Mish()(h))
        FLAT(relu, nn::ReLU()(h))
        FLAT(relu_in_place, nn::ReLU(true)(h))
        FLAT(silu, nn::SiLU()(h))
        FLAT(sigmoid, nn::Sigmoid()(h))
        FLAT(tanh, nn::Tanh()(h))
        FLAT(softmax, nn::Softmax(1)(h))
        FLAT(softmax_rows, nn::Softmax(0)(h))
        FLAT(log_softmax, nn::LogSoftmax(1)(h))
        FLAT(log_softmax_rows, nn::LogSoftmax(0)(h))
        IMAGE(softmax_channels, nn::Softmax2d()(h))
        IMAGE(prelu_channels, m.under_test(nn::PReLU(nn::PReLUOptions().num_parameters(4)))(h))
        PLAIN(prelu_plain, m.under_test(nn::PReLU())(t.flat))
        VOLUME(dropout_3d, nn::Dropout3d(0.4)(h))
    };
}

static Cases pools_and_pads() {
    return {
        LINES(adaptive_avg_1d, nn::AdaptiveAvgPool1d(5)(h))
        VOLUME(adaptive_avg_3d, nn::AdaptiveAvgPool3d(nn::AdaptiveAvgPool3dOptions({1, 4, 5}))(h))
        VOLUME(adaptive_max_3d, nn::AdaptiveMaxPool3d(nn::AdaptiveMaxPool3dOptions({1, 4, 5}))(h))
        VOLUME(avg_3d, nn::AvgPool3d(2)(h))
        VOLUME(max_3d, nn::MaxPool3d(2)(h))
        VOLUME(fractional_3d, nn::FractionalMaxPool3d(nn::FractionalMaxPool3dOptions({1, 2, 2}).output_size(torch::ExpandingArray<3>({1, 3, 4})))(h))
        LINES(lp_1d, nn::LPPool1d(2, 3)(h.abs() + 0.1))
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
        VOLUME(lp_3d, nn::LPPool3d(2, 2)(h.abs() + 0.1))
        LINES(zero_pad_1d, nn::ZeroPad1d(2)(h))
        VOLUME(zero_pad_3d, nn::ZeroPad3d(1)(h))
#endif
        LINES(max_unpool_1d, unpooled(nn::MaxPool1d(2)->forward_with_indices(h), nn::MaxUnpool1d(2)))
        IMAGE(max_unpool_2d, unpooled(nn::MaxPool2d(2)->forward_with_indices(h), nn::MaxUnpool2d(2)))
        VOLUME(max_unpool_3d, unpooled(nn::MaxPool3d(2)->forward_with_indices(h), nn::MaxUnpool3d(2)))
        IMAGE(max_unpool_overlapping, unpooled(nn::MaxPool2d(nn::MaxPool2dOptions(3).stride(1))->forward_with_indices(h),
                                               nn::MaxUnpool2d(nn::MaxUnpool2dOptions(3).stride(1))))
        LINES(constant_pad_1d, nn::ConstantPad1d(2, 0.5)(h))
        IMAGE(constant_pad_2d, nn::ConstantPad2d(1, 0.5)(h))
        VOLUME(constant_pad_3d, nn::ConstantPad3d(1, 0.5)(h))
        LINES(reflection_pad_1d, nn::ReflectionPad1d(2)(h))
        VOLUME(reflection_pad_3d, nn::ReflectionPad3d(1)(h))
        LINES(replication_pad_1d, nn::ReplicationPad1d(2)(h))
        VOLUME(replication_pad_3d, nn::ReplicationPad3d(1)(h))
        IMAGE(pixel_unshuffle, nn::PixelUnshuffle(2)(h))
    };
}

static Cases layers() {
    return {
        VOLUME(conv_transpose_3d, m.under_test(nn::ConvTranspose3d(2, 3, 2))(h))
        IMAGE(conv_groups, m.under_test(nn::Conv2d(nn::Conv2dOptions(4, 8, 3).groups(4).stride(2).bias(false)))(h))
        IMAGE(conv_circular, m.under_test(nn::Conv2d(nn::Conv2dOptions(4, 2, 3).padding(1).dilation(2).padding_mode(torch::kCircular)))(h))
        IMAGE(conv_same, m.under_test(nn::Conv2d(nn::Conv2dOptions(4, 2, 3).padding(torch::kSame)))(h))
        PLAIN(conv_1d_plain, m.under_test(nn::Conv1d(3, 2, 3))(t.pictures.flatten(2)))
        PLAIN(conv_3d_plain, m.under_test(nn::Conv3d(1, 2, 2))(t.pictures.unsqueeze(1)))
        PLAIN(conv_transpose_1d_plain, m.under_test(nn::ConvTranspose1d(3, 2, 3))(t.pictures.flatten(2)))
        PLAIN(conv_transpose_2d_plain, m.under_test(nn::ConvTranspose2d(3, 2, 2))(t.pictures))
        PLAIN(conv_transpose_3d_plain, m.under_test(nn::ConvTranspose3d(1, 2, 2))(t.pictures.unsqueeze(1)))
        FLAT(linear, m.under_test(nn::Linear(nn::LinearOptions(12, 3).bias(false)))(h))
        FLAT(bilinear_layers, m.under_test(nn::Bilinear(12, 12, 3))(h, m.other(t.flat)))
        PLAIN(bilinear_plain, m.under_test(nn::Bilinear(8, 12, 3))(t.flat, t.noise))
        VOLUME(batch_norm_3d, m.under_test(nn::BatchNorm3d(2))(h))
        PLAIN(batch_norm_plain, m.under_test(nn::BatchNorm1d(8))(t.flat))
        LINES(instance_norm_1d, m.under_test(nn::InstanceNorm1d(nn::InstanceNorm1dOptions(4).affine(true).track_running_stats(true)))(h))
        VOLUME(instance_norm_3d, m.under_test(nn::InstanceNorm3d(nn::InstanceNorm3dOptions(2).affine(true)))(h))
        PLAIN(instance_norm_plain, m.under_test(nn::InstanceNorm2d(nn::InstanceNorm2dOptions(3).affine(true)))(t.pictures))
        PLAIN(layer_norm_plain, m.under_test(nn::LayerNorm(nn::LayerNormOptions({8})))(t.flat))
        PLAIN(group_norm_plain, m.under_test(nn::GroupNorm(3, 3))(t.pictures))
        IMAGE(cross_map, nn::CrossMapLRN2d(3)(h))
        PLAIN(embedding, m.under_test(nn::Embedding(nn::EmbeddingOptions(10, 8).padding_idx(3).max_norm(2.0)))(t.tokens))
        PLAIN(embedding_by_frequency, m.under_test(nn::Embedding(nn::EmbeddingOptions(10, 8).scale_grad_by_freq(true)))(t.tokens))
        PLAIN(embedding_bag_sum, m.under_test(nn::EmbeddingBag(nn::EmbeddingBagOptions(10, 8).mode(torch::kSum)))(
                                     t.tokens, torch::Tensor(), t.series.select(2, 0)))
        PLAIN(embedding_bag_max, m.under_test(nn::EmbeddingBag(nn::EmbeddingBagOptions(10, 8).mode(torch::kMax).padding_idx(3)))(t.tokens))
        PLAIN(embedding_bag_offsets, m.under_test(nn::EmbeddingBag(10, 8))(t.tokens.flatten(), torch::arange(t.rows) * 5))
    };
}

template <typename Cell> static torch::Tensor steps(Batch &t, Cell cell) { /* over plain data; the states go from step to step */
    auto state = cell(t.series.select(1, 0));
    for (int64_t i = 1; i < 5; i++) {
        state = cell(t.series.select(1, i), state);
    }
    if constexpr (std::is_same_v<decltype(state), torch::Tensor>) {
        return state;
    } else {
        return both(state);
    }
}

static Cases recurrent() {
    return {
        SERIES(lstm_cell, both(m.under_test(nn::LSTMCell(12, 7))(h.select(1, 2))))
        SERIES(rnn_cell, m.under_test(nn::RNNCell(12, 7))(h.select(1, 2)))
        SERIES(rnn_cell_relu, m.under_test(nn::RNNCell(nn::RNNCellOptions(12, 7).nonlinearity(torch::kReLU).bias(false)))(h.select(1, 2)))
        PLAIN(lstm_cell_steps, steps(t, m.under_test(nn::LSTMCell(8, 7))))
        PLAIN(gru_cell_steps, steps(t, m.under_test(nn::GRUCell(8, 7))))
        PLAIN(rnn_cell_steps, steps(t, m.under_test(nn::RNNCell(8, 7))))
        PLAIN(lstm_plain, std::get<0>(m.under_test(nn::LSTM(nn::LSTMOptions(8, 7).batch_first(true).proj_size(3)))(t.series)))
        PLAIN(gru_plain, both(m.under_test(nn::GRU(nn::GRUOptions(8, 7).num_layers(2).bidirectional(true).batch_first(true)))(t.series)))
        PLAIN(rnn_plain, both(m.under_test(nn::RNN(nn::RNNOptions(8, 7).nonlinearity(torch::kReLU)))(t.series.transpose(0, 1).contiguous())))
    };
}

static nn::AdaptiveLogSoftmaxWithLoss adaptive(Layers &m) {
    return m.under_test(nn::AdaptiveLogSoftmaxWithLoss(nn::AdaptiveLogSoftmaxWithLossOptions(12, 10, {2, 6}).div_value(2.0)));
}

static torch::Tensor of_lists(Layers &m, const torch::Tensor &h) {
    auto list = m.under_test(nn::ModuleList(nn::Linear(12, 12), nn::BatchNorm1d(12), nn::Linear(12, 12)));
    auto dictionary = m.under_test(nn::ModuleDict(std::vector<std::pair<std::string, std::shared_ptr<nn::Module>>>{
        {"narrow", nn::Linear(12, 4).ptr()}, {"table", nn::Embedding(10, 12).ptr()}}));
    auto parameters = m.under_test(nn::ParameterList(torch::randn({12, 12}, torch::requires_grad()), torch::randn({12}, torch::requires_grad())));
    nn::ParameterDict named;
    named->insert("scale", torch::rand({4}, torch::requires_grad()));
    named->insert("unused", torch::rand({4}, torch::requires_grad()));
    m.under_test(named);
    torch::Tensor x = list->at<nn::LinearImpl>(0).forward(h);
    x = list->at<nn::LinearImpl>(2).forward(torch::relu(list->at<nn::BatchNorm1dImpl>(1).forward(x)));
    x = torch::addmm(parameters[1], x, parameters[0]);
    return dictionary->at<nn::LinearImpl>("narrow").forward(x) * named["scale"];
}

static Cases containers() {
    return {
        FLAT(sequential, m.under_test(nn::Sequential(nn::Linear(12, 6), nn::BatchNorm1d(6), nn::Functional(torch::tanh), nn::Dropout(0.2),
                                                     nn::Linear(6, 4)))->forward(h))
        PLAIN(sequential_plain, m.under_test(nn::Sequential(nn::Conv2d(3, 4, 3), nn::BatchNorm2d(4), nn::ReLU(true), nn::Flatten(),
                                                            nn::Linear(64, 3)))->forward(t.pictures))
        FLAT(lists, of_lists(m, h))
        FLAT(adaptive_log_softmax, adaptive(m)(h, t.tokens.select(1, 0)).output)
        FLAT(adaptive_loss, h.mean() * adaptive(m)(h, t.tokens.select(1, 0)).loss)
        FLAT(adaptive_log_prob, adaptive(m)->log_prob(h))
        FLAT(adaptive_predict, adaptive(m)->predict(h))
    };
}

template <typename Options> static Options reduced(Options options, const Batch &t) {
    if (t.reduction == "_sum") {
        return options.reduction(torch::kSum);
    }
    return t.reduction == "_none" ? options.reduction(torch::kNone) : options.reduction(torch::kMean);
}

__attribute__((noinline)) static torch::Tensor normal_target(Batch &t) {
    return t.noise.slice(1, 0, 6);
}

__attribute__((noinline)) static torch::Tensor signs_of(Batch &t) {
    return (t.target > 2).to(torch::kFloat) * 2 - 1;
}

#define LOSS(name, loss, options, ...)                                                                                                     \
    SCORES(name, [&](const torch::Tensor &target, const torch::Tensor &signs) {                                                            \
        return loss(reduced(loss##Options()options, t))(__VA_ARGS__);                                                                      \
    }(normal_target(t), signs_of(t)))

static const Case LOSSES[] = {
    LOSS(cross_entropy, nn::CrossEntropyLoss, .weight(torch::linspace(0.1, 1, 6)).ignore_index(2).label_smoothing(0.1), h, t.target)
    LOSS(cross_entropy_half, nn::CrossEntropyLoss, , h, t.target.masked_fill(torch::arange(t.rows) < t.rows / 2, -100)) /* one rank has none */
    LOSS(cross_entropy_probabilities, nn::CrossEntropyLoss, .weight(torch::linspace(0.1, 1, 6)), h, target.softmax(1))
    LOSS(cross_entropy_series, nn::CrossEntropyLoss, .ignore_index(4), m.scores(t.series).transpose(1, 2), t.tokens % 6)
    LOSS(nll, nn::NLLLoss, .weight(torch::linspace(0.1, 1, 6)).ignore_index(2), h.log_softmax(1), t.target)
    LOSS(nll_pictures, nn::NLLLoss, .weight(torch::linspace(0.1, 1, 4)).ignore_index(0), m.image(t.pictures).log_softmax(1),
         (t.pictures.select(1, 0).abs() * 2).to(torch::kLong).clamp_max(3))
    LOSS(mse, nn::MSELoss, , h, target)
    LOSS(mse_columns, nn::MSELoss, , m.flat(t.flat).view({-1, 2, 6}), m.other(t.flat).view({-1, 2, 6})) /* both divided */
    LOSS(l1, nn::L1Loss, , h, target)
    LOSS(smooth_l1, nn::SmoothL1Loss, .beta(0.3), h, target)
    LOSS(huber, nn::HuberLoss, .delta(0.3), h, target)
    LOSS(kl, nn::KLDivLoss, , h.log_softmax(1), target.softmax(1))
    LOSS(kl_log, nn::KLDivLoss, .log_target(true), h.log_softmax(1), target.log_softmax(1))
    LOSS(bce, nn::BCELoss, .weight(torch::linspace(0.1, 1, 6)), h.sigmoid(), target.sigmoid())
    LOSS(bce_rows, nn::BCELoss, .weight(t.noise.slice(1, 6, 12).abs()), h.sigmoid(), target.sigmoid())
    LOSS(bce_logits, nn::BCEWithLogitsLoss, .weight(t.noise.slice(1, 6, 12).abs()).pos_weight(torch::linspace(1, 3, 6)), h, target.sigmoid())
    LOSS(hinge_embedding, nn::HingeEmbeddingLoss, .margin(0.6), h.select(1, 0), signs)
    LOSS(multi_margin, nn::MultiMarginLoss, .p(2).margin(0.7).weight(torch::linspace(0.1, 1, 6)), h, t.target)
    LOSS(cosine_embedding, nn::CosineEmbeddingLoss, .margin(-0.2), h, target, signs)
    LOSS(multilabel_margin, nn::MultiLabelMarginLoss, , h, (target > 0).to(torch::kLong).masked_fill(t.mask.slice(1, 0, 6), -1))
    LOSS(multilabel_soft, nn::MultiLabelSoftMarginLoss, .weight(torch::linspace(0.1, 1, 6)), h, (target > 0).to(torch::kFloat))
    LOSS(soft_margin, nn::SoftMarginLoss, , h.select(1, 0), signs)
    LOSS(triplet, nn::TripletMarginLoss, .margin(0.5).swap(true).p(3), h, target, -target)
    LOSS(triplet_distance, nn::TripletMarginWithDistanceLoss,
         .swap(true).distance_function([](const torch::Tensor &x, const torch::Tensor &y) { return (x - y).abs().sum(1); }), h, target, -target)
    LOSS(poisson, nn::PoissonNLLLoss, .full(true), h, target.abs() * 3)
    LOSS(poisson_plain, nn::PoissonNLLLoss, .log_input(false), h.abs(), target.abs())
    LOSS(margin_ranking, nn::MarginRankingLoss, .margin(0.3), h.select(1, 0), h.select(1, 1), signs)
    LOSS(ctc, nn::CTCLoss, .zero_infinity(true), m.scores(t.series).transpose(0, 1).log_softmax(2),
         (t.tokens % 5 + 1).slice(1, 0, 2), torch::full({t.rows}, 5, torch::kLong) - t.target % 3, t.target % 2 + 1)
};

static Cases losses() {
    Cases cases;
    for (const Case &loss : LOSSES) {
        for (const char *reduction : {"_mean", "_sum", "_none"}) {
            cases.push_back({loss.name, loss.function, reduction});
        }
    }
    return cases;
}

static Cases functions() {
    return {
        FLAT(functions_of_activation, together({F::elu(h), F::selu(h), F::hardshrink(h), F::hardtanh(h), F::leaky_relu(h), F::logsigmoid(h),
                                     F::gumbel_softmax(h), F::softmax(h, 1), F::softmin(h, 1), F::log_softmax(h, 1), F::glu(h, 1)}))
        FLAT(functions_of_activation_too, together({F::gelu(h), F::silu(h), F::mish(h), F::prelu(h, m.own({12})), F::relu(h), F::relu6(h),
                                         F::rrelu(h, F::RReLUFuncOptions().training(true)), F::celu(h), F::softplus(h), F::softshrink(h),
                                         F::softsign(h), F::tanhshrink(h), F::threshold(h, F::ThresholdFuncOptions(0.1, 2))}))
        FLAT(functions_of_linear, together({F::linear(h, m.own({3, 12}), m.own({3})), F::bilinear(h, t.noise, m.own({3, 12, 12}), m.own({3}))}))
        FLAT(functions_of_distance, together({F::cosine_similarity(h, t.noise), F::pairwise_distance(h, t.noise), F::pdist(h)}))
        IMAGE(functions_of_conv, together({F::conv1d(h.flatten(2), m.own({2, 4, 3})), F::conv2d(h, m.own({2, 4, 3, 3}), F::Conv2dFuncOptions().bias(m.own({2}))),
                                F::conv3d(h.unsqueeze(2), m.own({2, 4, 1, 2, 2})), F::conv_transpose1d(h.flatten(2), m.own({4, 2, 3})),
                                F::conv_transpose2d(h, m.own({4, 2, 3, 3})), F::conv_transpose3d(h.unsqueeze(2), m.own({4, 2, 1, 2, 2}))}))
        FLAT(functions_of_embedding, together({h, F::embedding(t.tokens, m.own({10, 5})), F::embedding_bag(t.tokens, m.own({10, 5})), F::one_hot(t.target, 6)}))
        IMAGE(functions_of_dropout, together({F::dropout(h, F::DropoutFuncOptions().p(0.3)), F::dropout2d(h, F::Dropout2dFuncOptions().p(0.3)),
                                   F::dropout3d(h.unsqueeze(2), F::Dropout3dFuncOptions().p(0.3)),
                                   F::alpha_dropout(h, F::AlphaDropoutFuncOptions().p(0.3).training(true)),
                                   F::feature_alpha_dropout(h, F::FeatureAlphaDropoutFuncOptions().p(0.3).training(true))}))
        IMAGE(functions_of_normalization, together({F::batch_norm(h, {}, {}, F::BatchNormFuncOptions().training(true).weight(m.own({4}))), F::instance_norm(h),
                                         F::layer_norm(h, F::LayerNormFuncOptions({6}).bias(m.own({6}))),
                                         F::group_norm(h, F::GroupNormFuncOptions(2).weight(m.own({4}))), F::local_response_norm(h, 2), F::normalize(h)}))
        IMAGE(functions_of_avg_pool, together({F::avg_pool1d(h.flatten(2), F::AvgPool1dFuncOptions(3)), F::avg_pool2d(h, F::AvgPool2dFuncOptions(2)),
                                    F::avg_pool3d(h, F::AvgPool3dFuncOptions(2)), F::adaptive_avg_pool1d(h.flatten(2), F::AdaptiveAvgPool1dFuncOptions(5)),
                                    F::adaptive_avg_pool2d(h, F::AdaptiveAvgPool2dFuncOptions(4)),
                                    F::adaptive_avg_pool3d(h.unsqueeze(1), F::AdaptiveAvgPool3dFuncOptions(3)),
                                    F::lp_pool1d(h.flatten(2).abs() + 0.1, F::LPPool1dFuncOptions(2, 3)),
                                    F::lp_pool2d(h.abs() + 0.1, F::LPPool2dFuncOptions(2, 2))}))
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5)
        VOLUME(functions_of_lp_pool, F::lp_pool3d(h.abs() + 0.1, F::LPPool3dFuncOptions(2, 2)))
#endif
        IMAGE(functions_of_max_pool, together({F::max_pool1d(h.flatten(2), F::MaxPool1dFuncOptions(3)), F::max_pool2d(h, F::MaxPool2dFuncOptions(2)),
                                    F::max_pool3d(h.unsqueeze(1), F::MaxPool3dFuncOptions(2)),
                                    F::adaptive_max_pool1d(h.flatten(2), F::AdaptiveMaxPool1dFuncOptions(5)),
                                    F::adaptive_max_pool2d(h, F::AdaptiveMaxPool2dFuncOptions(4)),
                                    F::adaptive_max_pool3d(h.unsqueeze(1), F::AdaptiveMaxPool3dFuncOptions(3)),
                                    F::fractional_max_pool2d(h, F::FractionalMaxPool2dFuncOptions(2).output_size(3)),
                                    F::fractional_max_pool3d(h.unsqueeze(1), F::FractionalMaxPool3dFuncOptions(2).output_size(2))}))
        IMAGE(max_pool_with_indices,
              together({both(F::max_pool1d_with_indices(h.flatten(2), F::MaxPool1dFuncOptions(3))),
                        both(F::max_pool2d_with_indices(h, F::MaxPool2dFuncOptions(2))),
                        both(F::max_pool3d_with_indices(h.unsqueeze(1), F::MaxPool3dFuncOptions(2))),
                        both(F::adaptive_max_pool1d_with_indices(h.flatten(2), F::AdaptiveMaxPool1dFuncOptions(5))),
                        both(F::adaptive_max_pool2d_with_indices(h, F::AdaptiveMaxPool2dFuncOptions(4))),
                        both(F::adaptive_max_pool3d_with_indices(h.unsqueeze(1), F::AdaptiveMaxPool3dFuncOptions(3))),
                        both(F::fractional_max_pool2d_with_indices(h, F::FractionalMaxPool2dFuncOptions(2).output_size(3))),
                        both(F::fractional_max_pool3d_with_indices(h.unsqueeze(1), F::FractionalMaxPool3dFuncOptions(2).output_size(2)))}))
        IMAGE(max_unpool_h,
              together({unpooled(F::max_pool1d_with_indices(h.flatten(2), F::MaxPool1dFuncOptions(3)),
                                 [](auto &x, auto &indices) { return F::max_unpool1d(x, indices, F::MaxUnpool1dFuncOptions(3)); }),
                        unpooled(F::max_pool2d_with_indices(h, F::MaxPool2dFuncOptions(2)),
                                 [](auto &x, auto &indices) { return F::max_unpool2d(x, indices, F::MaxUnpool2dFuncOptions(2)); }),
                        unpooled(F::max_pool3d_with_indices(h.unsqueeze(1), F::MaxPool3dFuncOptions(2)),
                                 [](auto &x, auto &indices) { return F::max_unpool3d(x, indices, F::MaxUnpool3dFuncOptions(2)); })}))
        IMAGE(functions_of_picture, together({F::pixel_shuffle(h, 2), F::pixel_unshuffle(h, 2), F::unfold(h, F::UnfoldFuncOptions(2)),
                                   F::fold(F::unfold(h, F::UnfoldFuncOptions(2).stride(2)), F::FoldFuncOptions({6, 6}, 2).stride(2)),
                                   F::interpolate(h, F::InterpolateFuncOptions().size(std::vector<int64_t>({9, 4})).mode(torch::kNearest))}))
        SCORES(functions_of_loss, [&](const torch::Tensor &target, const torch::Tensor &signs) {
            return together({F::l1_loss(h, target), F::kl_div(h.log_softmax(1), target.softmax(1), torch::kSum), F::mse_loss(h, target),
                             F::binary_cross_entropy(h.sigmoid(), target.sigmoid()), F::hinge_embedding_loss(h, (target > 0).to(torch::kFloat) * 2 - 1),
                             F::multi_margin_loss(h, t.target), F::cosine_embedding_loss(h, target, signs), F::smooth_l1_loss(h, target),
                             F::huber_loss(h, target), F::multilabel_margin_loss(h, (target > 0).to(torch::kLong)),
                             F::soft_margin_loss(h.select(1, 0), signs), F::multilabel_soft_margin_loss(h, (target > 0).to(torch::kFloat)),
                             F::triplet_margin_loss(h, target, -target), F::triplet_margin_with_distance_loss(h, target, -target),
                             F::poisson_nll_loss(h, target.abs()), F::margin_ranking_loss(h.select(1, 0), h.select(1, 1), signs),
                             F::binary_cross_entropy_with_logits(h, target.sigmoid()),
                             F::ctc_loss(h.view({1, t.rows, 6}).expand({4, -1, -1}).log_softmax(2), t.target.clamp_min(1).view({-1, 1}),
                                         torch::full({t.rows}, 4, torch::kLong), torch::ones({t.rows}, torch::kLong))});
        }(normal_target(t), signs_of(t)))
    };
}

static torch::Tensor through_vector(Layers &m, const torch::Tensor &h) { /* parameters in one vector, and given the numbers of another one */
    auto module = m.under_test(nn::Linear(12, 3));
    torch::Tensor vector = nn::utils::parameters_to_vector(module->parameters());
    nn::utils::vector_to_parameters(vector.detach() * 0.5, module->parameters());
    return module(h) + (vector * vector).mean();
}

static torch::Tensor clipped(Layers &m, Batch &t) {
    auto module = m.under_test(nn::Linear(8, 3));
    weigh(module(t.flat)).backward();
    nn::utils::clip_grad_value_(module->parameters(), 1.0);
    return torch::full({}, nn::utils::clip_grad_norm_(module->parameters(), 2.0));
}

static Cases utilities() {
    return {
        FLAT(parameters_in_vector, through_vector(m, h))
        PLAIN(clip_gradients, clipped(m, t))
        FLAT(invert_permutation, h.index_select(0, nn::utils::rnn::invert_permutation(torch::randperm(t.rows))))
        SERIES(pad_sequence, nn::utils::rnn::pad_sequence(std::vector<torch::Tensor>{h[1].slice(0, 0, 3), h[t.rows - 1], h[2].slice(0, 0, 2)}, true))
        SERIES(pack_sequence, std::get<0>(m.under_test(nn::GRU(12, 7))->forward_with_packed_input(nn::utils::rnn::pack_sequence(h.unbind(0)))).data())
        SERIES(pad_packed_sequence, std::get<0>(nn::utils::rnn::pad_packed_sequence(
                                        nn::utils::rnn::pack_padded_sequence(h, 5 - t.target % 3, true, false), true)))
    };
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    Cases cases;
    for (const Cases &some : {activations(), pools_and_pads(), layers(), recurrent(), containers(), losses(), functions(), utilities()}) {
        cases.insert(cases.end(), some.begin(), some.end());
    }
    return run_cases(cases, count, words);
}
