/* Attention as programs write it: by hand, and by the modules of torch::nn (sequence first), with masks and dropout. */
#include "rule_case.h"

namespace F = torch::nn::functional;
namespace nn = torch::nn;

static torch::Tensor causal_mask() {
    return torch::ones({5, 5}).triu(1).to(torch::kBool);
}

static torch::Tensor heads(const torch::Tensor &x) { /* (rows, time, 12) to (rows, 3, time, 4) */
    return x.view({x.size(0), x.size(1), 3, 4}).transpose(1, 2);
}

static torch::Tensor by_hand(Layers &m, Batch &t, double dropout, const torch::Tensor &mask) {
    torch::Tensor query = heads(m.seen(m.flat(t.series))), key = heads(m.other(t.series));
    torch::Tensor scores = torch::matmul(query, key.transpose(-2, -1)) / 2.0;
    if (mask.defined()) {
        scores = scores.masked_fill(mask, -1e9);
    }
    torch::Tensor weights = torch::dropout(torch::softmax(scores, -1), dropout, true);
    return torch::matmul(weights, query).transpose(1, 2).contiguous().view({t.rows, 5, 12});
}

static torch::Tensor merged_heads(Layers &m, Batch &t) { /* what multi_head_attention_forward does: heads merged with the batch */
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1);  /* time, rows, features */
    torch::Tensor query = x.contiguous().view({5, t.rows * 3, 4}).transpose(0, 1);
    torch::Tensor weights = torch::softmax(torch::bmm(query, query.transpose(1, 2)), -1);
    return torch::bmm(weights, query).transpose(0, 1).contiguous().view({5, t.rows, 12});
}

static torch::Tensor module_attention(Layers &m, Batch &t, double dropout, const torch::Tensor &padding, const torch::Tensor &mask,
                                      bool weights) {
    auto attention = m.under_test(nn::MultiheadAttention(nn::MultiheadAttentionOptions(12, 3).dropout(dropout)));
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    auto [output, average] = attention(x, y, y, padding, true, mask);
    return weights ? average : output;
}

static torch::Tensor as_function(Layers &m, Batch &t) { /* parameters and masks of the program's own */
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    torch::Tensor padding = torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1);
    F::MultiheadAttentionForwardFuncOptions options(12, 3, m.own({36, 12}), m.own({36}), {}, {}, false, 0.1, m.own({12, 12}), m.own({12}));
    auto [output, weights] = F::multi_head_attention_forward(x, y, y, options.key_padding_mask(padding));
    return output * weights.sum({1, 2}).view({1, t.rows, 1});
}

static torch::Tensor other_keys(Layers &m, Batch &t) { /* keys and values of other sizes, and one more of each that is learned */
    nn::MultiheadAttentionOptions options(12, 3);
    auto attention = m.under_test(nn::MultiheadAttention(options.kdim(8).vdim(12).add_bias_kv(true).add_zero_attn(true)));
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    return std::get<0>(attention(x, t.series.transpose(0, 1), y));
}

static torch::Tensor encoder_layer(Layers &m, Batch &t, double dropout, bool training) {
    auto layer = m.under_test(nn::TransformerEncoderLayer(nn::TransformerEncoderLayerOptions(12, 3).dim_feedforward(16).dropout(dropout)));
    layer->train(training);
    return layer(m.seen(m.flat(t.series)).transpose(0, 1));
}

static torch::Tensor plain_input(Layers &m, Batch &t, double dropout) { /* the batch meets the module's own parameters first */
    nn::TransformerEncoderLayerOptions options(8, 2);
    return m.under_test(nn::TransformerEncoderLayer(options.dim_feedforward(16).dropout(dropout)))(t.series.transpose(0, 1).contiguous());
}

static torch::Tensor whole_transformer(Layers &m, Batch &t) {
    auto model = m.under_test(nn::Transformer(nn::TransformerOptions(12, 3, 1, 1).dim_feedforward(16).dropout(0.1)));
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    return model(x, y, torch::Tensor(), causal_mask());
}

static torch::Tensor stacked_encoder(Layers &m, Batch &t) {
    nn::TransformerEncoderLayer layer(nn::TransformerEncoderLayerOptions(12, 3).dim_feedforward(16).dropout(0.2));
    nn::TransformerEncoderOptions options(layer, 2);
    auto encoder = m.under_test(nn::TransformerEncoder(options.norm(nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({12}))))));
    torch::Tensor padding = torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1);
    return encoder(m.seen(m.flat(t.series)).transpose(0, 1), torch::Tensor(), padding);
}

static nn::TransformerDecoderLayer decoder_layer(double dropout) {
    return nn::TransformerDecoderLayer(nn::TransformerDecoderLayerOptions(12, 3).dim_feedforward(16).dropout(dropout).activation(torch::kGELU));
}

template <typename Decoder> static torch::Tensor decoded(Layers &m, Batch &t, Decoder decoder) {
    torch::Tensor x = m.seen(m.flat(t.series)).transpose(0, 1), memory = m.other(t.series).transpose(0, 1);
    torch::Tensor padding = torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1);
    return decoder(x, memory, causal_mask(), torch::Tensor(), torch::Tensor(), padding);
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    Cases cases = {
        {"by_hand", [](Layers &m, Batch &t) { return by_hand(m, t, 0, {}); }},
        {"by_hand_causal", [](Layers &m, Batch &t) { return by_hand(m, t, 0, causal_mask()); }},
        {"by_hand_dropout", [](Layers &m, Batch &t) { return by_hand(m, t, 0.3, causal_mask()); }},
        {"by_hand_row_mask",
         [](Layers &m, Batch &t) {
             return by_hand(m, t, 0.1, (torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1)).unsqueeze(1).unsqueeze(2));
         }},
        {"merged_heads", [](Layers &m, Batch &t) { return merged_heads(m, t); }},
        {"module", [](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, {}, false); }},
        {"module_weights", [](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, {}, true); }},
        {"module_dropout", [](Layers &m, Batch &t) { return module_attention(m, t, 0.2, {}, {}, false); }},
        {"module_causal", [](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, causal_mask(), false); }},
        {"module_padding",
         [](Layers &m, Batch &t) { return module_attention(m, t, 0, torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1), {}, false); }},
        {"module_both",
         [](Layers &m, Batch &t) {
             return module_attention(m, t, 0.1, torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1), causal_mask(), false);
         }},
        {"encoder_layer", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0, true); }},
        {"encoder_layer_dropout", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0.2, true); }},
        {"encoder_layer_eval", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0.2, false); }},
        {"module_other_keys", [](Layers &m, Batch &t) { return other_keys(m, t); }},
        {"function", [](Layers &m, Batch &t) { return as_function(m, t); }},
        {"plain_input", [](Layers &m, Batch &t) { return plain_input(m, t, 0); }},
        {"plain_input_dropout", [](Layers &m, Batch &t) { return plain_input(m, t, 0.2); }},
        {"plain_input_no_grad",
         [](Layers &m, Batch &t) {
             torch::NoGradGuard no_grad;
             return plain_input(m, t, 0);
         }},
        {"decoder_layer", [](Layers &m, Batch &t) { return decoded(m, t, m.under_test(decoder_layer(0))); }},
        {"decoder_layer_dropout", [](Layers &m, Batch &t) { return decoded(m, t, m.under_test(decoder_layer(0.2))); }},
        {"decoder",
         [](Layers &m, Batch &t) {
             return decoded(m, t, m.under_test(nn::TransformerDecoder(nn::TransformerDecoderOptions(decoder_layer(0.1), 2))));
         }},
        {"transformer", [](Layers &m, Batch &t) { return whole_transformer(m, t); }},
        {"encoder", [](Layers &m, Batch &t) { return stacked_encoder(m, t); }},
#if TORCH_VERSION_MAJOR >= 2
        {"fused",
         [](Layers &m, Batch &t) {
             return at::scaled_dot_product_attention(heads(m.flat(t.series)), heads(m.other(t.series)), heads(m.flat(t.series)));
         }},
        {"fused_causal",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series)));
             return at::scaled_dot_product_attention(x, x, x, {}, 0.0, true);
         }},
        {"fused_dropout",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series)));
             return at::scaled_dot_product_attention(x, x, x, {}, 0.2, true);
         }},
        {"fused_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series)));
             return at::scaled_dot_product_attention(x, x, x, torch::ones({5, 5}).tril().to(torch::kBool));
         }},
        {"fused_row_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series)));
             torch::Tensor mask = (torch::arange(5).unsqueeze(0) <= t.target.unsqueeze(1)).view({t.rows, 1, 1, 5});
             return at::scaled_dot_product_attention(x, x, x, mask);
         }},
        {"fused_own_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series)));
             return at::scaled_dot_product_attention(x, x, x, torch::matmul(x, x.transpose(2, 3)).tanh());
         }},
        {"fused_plain_keys",
         [](Layers &m, Batch &t) {
             torch::Tensor y = t.noise.view({t.rows, 3, 1, 4}).expand({t.rows, 3, 5, 4});
             return at::scaled_dot_product_attention(heads(m.flat(t.series)), y, y);
         }},
        {"fused_one_head",
         [](Layers &m, Batch &t) {
             torch::Tensor x = m.seen(m.flat(t.series));
             return at::scaled_dot_product_attention(x, x, x);
         }},
        {"fused_merged",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series))).reshape({t.rows * 3, 5, 4});
             return at::scaled_dot_product_attention(x, x, x);
         }},
        {"fused_sequence_first",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.seen(m.flat(t.series))).transpose(0, 1);
             return at::scaled_dot_product_attention(x, x, x);
         }},
#endif
    };
    return run_cases(cases, count, words);
}
