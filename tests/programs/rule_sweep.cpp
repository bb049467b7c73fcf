/* Layers and losses of torch::nn, each after a layer that divides the batch. rule_sweep.py goes through the functions of torch in the
   same way. */
#include "rule_case.h"

namespace F = torch::nn::functional;
namespace nn = torch::nn;

static torch::Tensor normal_target(Batch &t) {
    return t.noise.slice(1, 0, 6);
}

static torch::Tensor signs(Batch &t) {
    return (t.target > 2).to(torch::kFloat) * 2 - 1;
}

static torch::Tensor well_conditioned(const torch::Tensor &h) { /* a well conditioned symmetric matrix of each row */
    torch::Tensor rows = h.view({-1, 3, 4});
    return torch::matmul(rows, rows.transpose(1, 2)) + 2 * torch::eye(3);
}

static Cases layers() {
    return {
        FLAT(relu, torch::relu(h)) FLAT(elu, nn::ELU()(h)) FLAT(selu, nn::SELU()(h)) FLAT(celu, nn::CELU()(h)) FLAT(
            gelu, torch::gelu(h)) FLAT(silu, torch::silu(h)) FLAT(mish, torch::mish(h)) FLAT(hardtanh, nn::Hardtanh()(h))
            FLAT(leaky, nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2))(h)) FLAT(
                leaky_in_place, nn::LeakyReLU(nn::LeakyReLUOptions().negative_slope(0.2).inplace(true))(
                                    h)) FLAT(relu6, nn::ReLU6()(h)) FLAT(softplus, nn::Softplus()(h)) FLAT(softshrink, nn::Softshrink()(h))
                FLAT(softsign, nn::Softsign()(h)) FLAT(tanhshrink, nn::Tanhshrink()(h)) FLAT(threshold, nn::Threshold(0.1, 2)(h))
                    FLAT(log_sigmoid, nn::LogSigmoid()(h)) FLAT(prelu, m.under_test(nn::PReLU())(h)) FLAT(glu, nn::GLU()(h)) FLAT(rrelu, nn::RReLU()(h))
                        FLAT(softmax, torch::softmax(h, 1)) FLAT(softmax_rows, torch::softmax(h, 0)) FLAT(softmin, nn::Softmin(1)(h)) FLAT(
                            log_softmax,
                            torch::log_softmax(h, 1)) FLAT(dropout,
                                                           nn::Dropout(0.4)(h)) FLAT(alpha_dropout, nn::AlphaDropout(0.3)(h))
                            FLAT(layer_norm, m.under_test(nn::LayerNorm(nn::LayerNormOptions({12})))(h)) FLAT(batch_norm, m.under_test(nn::BatchNorm1d(12))(h))
                                FLAT(identity, nn::Identity()(h)) FLAT(unflatten, nn::Unflatten(nn::UnflattenOptions(1, {3, 4}))(h)) FLAT(
                                    bilinear,
                                    m.under_test(nn::Bilinear(12, 12, 3))(h, t.noise)) FLAT(cosine_similarity, nn::CosineSimilarity()(h, t.noise))
                                    FLAT(pairwise_distance, nn::PairwiseDistance()(h, t.noise)) FLAT(normalize, F::normalize(h)) FLAT(
                                        normalize_rows,
                                        F::normalize(h, F::NormalizeFuncOptions().dim(0))) FLAT(gumbel, F::gumbel_softmax(h))
                                        FLAT(pad, torch::constant_pad_nd(h, {1, 2})) FLAT(variance, h.var()) FLAT(
                                            deviation_rows,
                                            h.std(0)) FLAT(norm, h.norm())
                                            FLAT(maximum, h.max()) FLAT(cumsum_rows, h.cumsum(0)) FLAT(sort_rows, std::get<0>(h.sort(0)))
                                                FLAT(topk_all, std::get<0>(h.flatten().topk(4))) FLAT(flip, h.flip(1)) FLAT(
                                                    roll_rows, h.roll(1, 0)) FLAT(cat_rows, torch::cat({h, m.other(t.flat)}))
                                                    FLAT(stack, torch::stack({h, t.noise}, 1)) FLAT(tile, h.tile({2})) FLAT(
                                                        repeat_interleave,
                                                        h.repeat_interleave(2, 0)) FLAT(where, torch::where(h > 0, h, t.noise))
                                                        FLAT(clamp, torch::clamp(h, -t.noise.abs(), t.noise.abs())) FLAT(
                                                            cdist,
                                                            torch::cdist(
                                                                h, m.other(t.flat))) FLAT(einsum, torch::einsum("bi,bj->bij", {h, t.noise}))
                                                            FLAT(outer, torch::outer(h.select(1, 0), h.select(1, 1))) FLAT(
                                                                baddbmm,
                                                                torch::baddbmm(torch::ones({3, 3}), h.view({-1, 3, 4}), h.view({-1, 4, 3})))
                                                                FLAT(addbmm,
                                                                     torch::addbmm(torch::ones({3, 3}), h.view({-1, 3, 4}),
                                                                                   h.view({-1, 4, 3}))) FLAT(gram, torch::mm(h, h.t()))
                                                                    FLAT(inverse, torch::inverse(well_conditioned(h))) FLAT(
                                                                        cholesky, torch::linalg_cholesky(well_conditioned(h)))
                                                                        FLAT(det, torch::det(well_conditioned(h))) FLAT(
                                                                            solve, torch::linalg_solve(
                                                                                       well_conditioned(h),
                                                                                       t.noise.slice(1, 0, 3).unsqueeze(2)))
                                                                            FLAT(fft, torch::abs(torch::fft_fft(h))) FLAT(
                                                                                fft_rows, torch::abs(torch::fft_fft(h, {}, 0)))
                                                                                FLAT(complex, torch::abs(torch::complex(h, t.noise))) FLAT(
                                                                                    to_double, h.to(torch::kDouble))
                                                                                    FLAT(mean_to_double, h.mean().to(torch::kDouble)) FLAT(
                                                                                        unique, std::get<0>(torch::_unique(
                                                                                                    (h > 0).to(torch::kLong))))
                                                                                        FLAT(histc, torch::histc(h.detach(), 5, -2, 2))
                                                                                            FLAT(median, h.median()) FLAT(prod_rows,
                                                                                                                          h.tanh().prod(0))
                                                                                                FLAT(sparse,
                                                                                                     torch::mm(
                                                                                                         torch::eye(t.rows).to_sparse(), h))
                                                                                                    FLAT(meshgrid,
                                                                                                         torch::meshgrid({h.select(1, 0),
                                                                                                                          h.select(1, 1)},
                                                                                                                         "ij")[0])};
}

static Cases pictures() {
    return {
        IMAGE(conv, m.under_test(nn::Conv2d(4, 2, 3))(h)) IMAGE(conv_transpose, m.under_test(nn::ConvTranspose2d(4, 2, 2))(h)) IMAGE(
            conv_1d, m.under_test(nn::Conv1d(4, 2, 3))(h.flatten(2))) IMAGE(conv_3d, m.under_test(nn::Conv3d(4, 2, 2))(h.unsqueeze(2).expand({-1, -1, 3, -1, -1})))
            IMAGE(conv_transpose_1d, m.under_test(nn::ConvTranspose1d(4, 2, 3))(h.flatten(2))) IMAGE(max_pool, nn::MaxPool2d(2)(h)) IMAGE(
                avg_pool,
                nn::AvgPool2d(2)(h)) IMAGE(lp_pool, nn::LPPool2d(2, 2)(h.abs() + 0.1))
                IMAGE(fractional_pool, nn::FractionalMaxPool2d(nn::FractionalMaxPool2dOptions(2).output_size(3))(h)) IMAGE(
                    max_pool_1d, nn::MaxPool1d(3)(h.flatten(2))) IMAGE(avg_pool_1d, nn::AvgPool1d(3)(h.flatten(2)))
                    IMAGE(adaptive_avg, nn::AdaptiveAvgPool2d(2)(h)) IMAGE(adaptive_max, nn::AdaptiveMaxPool2d(2)(h)) IMAGE(
                        adaptive_max_1d, nn::AdaptiveMaxPool1d(5)(h.flatten(2))) IMAGE(unfold, nn::Unfold(2)(h))
                        IMAGE(fold, nn::Fold(nn::FoldOptions({6, 6}, 2).stride(2))(nn::Unfold(nn::UnfoldOptions(2).stride(2))(h))) IMAGE(
                            upsample,
                            nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>({2, 2})).mode(torch::kNearest))(h))
                            IMAGE(upsample_bilinear, nn::Upsample(nn::UpsampleOptions()
                                                                      .size(std::vector<int64_t>({9, 4}))
                                                                      .mode(torch::kBilinear)
                                                                      .align_corners(false))(
                                                         h)) IMAGE(upsample_bicubic,
                                                                   nn::Upsample(nn::UpsampleOptions()
                                                                                    .size(std::vector<int64_t>({9, 4}))
                                                                                    .mode(torch::kBicubic)
                                                                                    .align_corners(true))(h))
                                IMAGE(pixel_shuffle, nn::PixelShuffle(2)(h)) IMAGE(pad_reflect, nn::ReflectionPad2d(1)(h)) IMAGE(
                                    pad_replicate, nn::ReplicationPad2d(1)(h)) IMAGE(pad_zero, nn::ZeroPad2d(1)(h))
                                    IMAGE(pad_circular, F::pad(h, F::PadFuncOptions({1, 1, 2, 1}).mode(torch::kCircular))) IMAGE(
                                        grid_sample,
                                        F::grid_sample(h, F::affine_grid(torch::eye(2, 3).repeat({t.rows, 1, 1}), {t.rows, 4, 4, 4}, false),
                                                       F::GridSampleFuncOptions().align_corners(false)))
                                        IMAGE(batch_norm_2d, m.under_test(nn::BatchNorm2d(4))(h)) IMAGE(instance_norm, m.under_test(nn::InstanceNorm2d(4))(h))
                                            IMAGE(group_norm, m.under_test(nn::GroupNorm(2, 4))(h)) IMAGE(local_response, nn::LocalResponseNorm(2)(h))
                                                IMAGE(dropout_2d, nn::Dropout2d(0.4)(h))
                                                    IMAGE(feature_alpha, nn::FeatureAlphaDropout(0.3)(h)) IMAGE(flatten, nn::Flatten()(h))
                                                        IMAGE(channels_last, h.contiguous(torch::MemoryFormat::ChannelsLast) * 2)
                                                            IMAGE(mean_channels, h.mean({0, 2, 3}))
                                                                IMAGE(cross_entropy_pictures,
                                                                      F::cross_entropy(h, (t.pictures.select(1, 0) > 0).to(torch::kLong)))};
}

static Cases losses() {
    return {
        SCORES(cross_entropy, F::cross_entropy(h, t.target)) SCORES(
            cross_entropy_weights, F::cross_entropy(h, t.target, F::CrossEntropyFuncOptions().weight(torch::linspace(0.1, 1, 6))))
            SCORES(cross_entropy_ignore, F::cross_entropy(h, t.target, F::CrossEntropyFuncOptions().ignore_index(2)))
                SCORES(cross_entropy_smooth, F::cross_entropy(h, t.target, F::CrossEntropyFuncOptions().label_smoothing(0.1))) SCORES(
                    cross_entropy_probabilities, F::cross_entropy(h, normal_target(t).softmax(1)))
                    SCORES(cross_entropy_none, F::cross_entropy(h, t.target, F::CrossEntropyFuncOptions().reduction(torch::kNone))) SCORES(
                        cross_entropy_sum, F::cross_entropy(h, t.target, F::CrossEntropyFuncOptions().reduction(torch::kSum)))
                        SCORES(nll, F::nll_loss(h.log_softmax(1), t.target)) SCORES(mse, nn::MSELoss()(h, normal_target(t))) SCORES(
                            l1, nn::L1Loss()(h, normal_target(t))) SCORES(smooth_l1, nn::SmoothL1Loss()(h, normal_target(t)))
                            SCORES(huber, nn::HuberLoss()(h, normal_target(t))) SCORES(
                                kl, nn::KLDivLoss(nn::KLDivLossOptions().reduction(torch::kBatchMean))(
                                        h.log_softmax(1),
                                        normal_target(t).softmax(1))) SCORES(bce, nn::BCELoss()(h.sigmoid(), normal_target(t).sigmoid()))
                                SCORES(bce_logits, nn::BCEWithLogitsLoss()(h, normal_target(t).sigmoid())) SCORES(
                                    hinge_embedding, nn::HingeEmbeddingLoss()(h.select(1, 0), signs(t)))
                                    SCORES(multi_margin, nn::MultiMarginLoss()(h, t.target)) SCORES(
                                        cosine_embedding, nn::CosineEmbeddingLoss()(h, normal_target(t), signs(t)))
                                        SCORES(multilabel_margin, nn::MultiLabelMarginLoss()(h, (normal_target(t) > 0).to(torch::kLong)))
                                            SCORES(multilabel_soft,
                                                   nn::MultiLabelSoftMarginLoss()(h, (normal_target(t) > 0).to(torch::kFloat)))
                                                SCORES(soft_margin, nn::SoftMarginLoss()(h.select(1, 0), signs(t))) SCORES(
                                                    triplet, nn::TripletMarginLoss()(h, normal_target(t), -normal_target(t)))
                                                    SCORES(poisson, nn::PoissonNLLLoss()(h, normal_target(t).abs())) SCORES(
                                                        margin_ranking,
                                                        nn::MarginRankingLoss()(h.select(1, 0), h.select(1, 1), signs(t)))
                                                        SCORES(ctc, nn::CTCLoss()(h.view({1, t.rows, 6}).expand({4, -1, -1}).log_softmax(2),
                                                                                  t.target.clamp_min(1).view({-1, 1}),
                                                                                  torch::full({t.rows}, 4, torch::kLong),
                                                                                  torch::ones({t.rows}, torch::kLong)))
                                                            SCORES(accuracy, (h.argmax(1) == t.target).to(torch::kFloat).mean())
                                                                SCORES(correct, h.argmax(1).eq(t.target).sum()) SCORES(
                                                                    weighted_rows,
                                                                    (F::cross_entropy(
                                                                         h, t.target,
                                                                         F::CrossEntropyFuncOptions().reduction(torch::kNone)) *
                                                                     torch::linspace(0, 1, t.rows))
                                                                        .sum()) SCORES(multinomial, h.softmax(1).multinomial(1))
                                                                    SCORES(bernoulli, torch::bernoulli(h.sigmoid()))
                                                                        SCORES(noise, h + h.exp() * torch::randn_like(h)) SCORES(
                                                                            root_of_mean, F::mse_loss(h, normal_target(t)).sqrt())
                                                                            SCORES(language_model,
                                                                                   F::cross_entropy(
                                                                                       m.scores(m.embedding(t.tokens)).view({-1, 6}),
                                                                                       t.tokens.view(-1) % 6))
                                                                                SCORES(embedding_bag,
                                                                                       m.flat(m.under_test(nn::EmbeddingBag(10, 8))(t.tokens)))
                                                                                    SCORES(shuffled, h.index({torch::randperm(t.rows)}))};
}

static Cases sequences() {
    return {SERIES(lstm, std::get<0>(m.under_test(nn::LSTM(nn::LSTMOptions(12, 7).batch_first(true)))(h)))
                SERIES(lstm_first, std::get<0>(m.under_test(nn::LSTM(12, 7))(h.transpose(0, 1)))) SERIES(
                    lstm_state,
                    std::get<0>(std::get<1>(m.under_test(nn::LSTM(nn::LSTMOptions(12, 7).num_layers(2).bidirectional(true).batch_first(true)))(h))))
                    SERIES(gru, std::get<1>(m.under_test(nn::GRU(nn::GRUOptions(12, 7).batch_first(true)))(h)))
                        SERIES(rnn, std::get<0>(m.under_test(nn::RNN(nn::RNNOptions(12, 7).batch_first(true)))(h))) SERIES(
                            lstm_dropout, std::get<0>(m.under_test(nn::LSTM(nn::LSTMOptions(12, 7).num_layers(2).dropout(0.3).batch_first(true)))(h)))
                            SERIES(cell, m.under_test(nn::GRUCell(12, 7))(h.select(1, 2))) SERIES(last, h.select(1, -1)) SERIES(time_mean, h.mean(1))
                                SERIES(packed, std::get<0>(m.under_test(nn::LSTM(12, 7))->forward_with_packed_input(nn::utils::rnn::pack_padded_sequence(
                                                               h, torch::full({t.rows}, 5, torch::kLong), true)))
                                                   .data())};
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    Cases cases;
    for (const Cases &some : {layers(), pictures(), losses(), sequences()}) {
        cases.insert(cases.end(), some.begin(), some.end());
    }
    return run_cases(cases, count, words);
}
