/* Attention as programs write it: by hand, and by the modules of torch::nn (sequence first), with masks and dropout. */
#include "rule_case.h"

static torch::Tensor heads(const torch::Tensor &x) { /* (rows, time, 12) to (rows, 3, time, 4) */
    return x.view({x.size(0), x.size(1), 3, 4}).transpose(1, 2);
}

static torch::Tensor by_hand(Layers &m, Batch &t, double dropout, const torch::Tensor &mask) {
    torch::Tensor query = heads(m.flat(t.series)), key = heads(m.other(t.series));
    torch::Tensor scores = torch::matmul(query, key.transpose(-2, -1)) / 2.0;
    if (mask.defined()) {
        scores = scores.masked_fill(mask, -1e9);
    }
    torch::Tensor weights = torch::dropout(torch::softmax(scores, -1), dropout, true);
    return torch::matmul(weights, query).transpose(1, 2).contiguous().view({t.rows, 5, 12});
}

static torch::Tensor merged_heads(Layers &m, Batch &t) { /* what multi_head_attention_forward does: heads merged with the batch */
    torch::Tensor x = m.flat(t.series).transpose(0, 1);  /* time, rows, features */
    torch::Tensor query = x.contiguous().view({5, t.rows * 3, 4}).transpose(0, 1);
    torch::Tensor weights = torch::softmax(torch::bmm(query, query.transpose(1, 2)), -1);
    return torch::bmm(weights, query).transpose(0, 1).contiguous().view({5, t.rows, 12});
}

static torch::Tensor module_attention(Layers &m, Batch &t, double dropout, const torch::Tensor &padding, const torch::Tensor &mask,
                                      bool weights) {
    torch::nn::MultiheadAttention attention(torch::nn::MultiheadAttentionOptions(12, 3).dropout(dropout));
    torch::Tensor x = m.flat(t.series).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    auto [output, average] = attention(x, y, y, padding, true, mask);
    return weights ? average : output;
}

static torch::Tensor encoder_layer(Layers &m, Batch &t, double dropout, bool training) {
    torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(12, 3).dim_feedforward(16).dropout(dropout));
    layer->train(training);
    return layer(m.flat(t.series).transpose(0, 1));
}

static torch::Tensor plain_input(Batch &t, double dropout, bool trained) { /* the batch meets the module's own parameters first */
    torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16).dropout(dropout));
    torch::Tensor output = layer(t.series.transpose(0, 1).contiguous());
    if (trained) {
        weigh(output).backward();
    }
    double norm = 0;
    for (const auto &parameter : layer->parameters()) {
        norm += parameter.grad().defined() ? parameter.grad().norm().item<double>() : 0;
    }
    return output.detach() * norm;
}

static torch::Tensor whole_transformer(Layers &m, Batch &t) {
    torch::nn::Transformer model(torch::nn::TransformerOptions(12, 3, 1, 1).dim_feedforward(16).dropout(0.1));
    torch::Tensor x = m.flat(t.series).transpose(0, 1), y = m.other(t.series).transpose(0, 1);
    return model(x, y, torch::Tensor(), torch::ones({5, 5}).triu(1).to(torch::kBool));
}

static torch::Tensor stacked_encoder(Layers &m, Batch &t) {
    torch::nn::TransformerEncoderLayer layer(torch::nn::TransformerEncoderLayerOptions(12, 3).dim_feedforward(16).dropout(0.2));
    torch::nn::TransformerEncoder encoder(torch::nn::TransformerEncoderOptions(layer, 2));
    torch::Tensor padding = torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1);
    return encoder(m.flat(t.series).transpose(0, 1), torch::Tensor(), padding);
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    torch::Tensor causal = torch::ones({5, 5}).triu(1).to(torch::kBool);
    Cases cases = {
        {"by_hand", [](Layers &m, Batch &t) { return by_hand(m, t, 0, {}); }},
        {"by_hand_causal", [=](Layers &m, Batch &t) { return by_hand(m, t, 0, causal); }},
        {"by_hand_dropout", [=](Layers &m, Batch &t) { return by_hand(m, t, 0.3, causal); }},
        {"by_hand_row_mask",
         [](Layers &m, Batch &t) {
             return by_hand(m, t, 0.1, (torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1)).unsqueeze(1).unsqueeze(2));
         }},
        {"merged_heads", [](Layers &m, Batch &t) { return merged_heads(m, t); }},
        {"module", [](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, {}, false); }},
        {"module_weights", [](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, {}, true); }},
        {"module_dropout", [](Layers &m, Batch &t) { return module_attention(m, t, 0.2, {}, {}, false); }},
        {"module_causal", [=](Layers &m, Batch &t) { return module_attention(m, t, 0, {}, causal, false); }},
        {"module_padding",
         [](Layers &m, Batch &t) { return module_attention(m, t, 0, torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1), {}, false); }},
        {"module_both",
         [=](Layers &m, Batch &t) {
             return module_attention(m, t, 0.1, torch::arange(5).unsqueeze(0) > t.target.unsqueeze(1), causal, false);
         }},
        {"encoder_layer", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0, true); }},
        {"encoder_layer_dropout", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0.2, true); }},
        {"encoder_layer_eval", [](Layers &m, Batch &t) { return encoder_layer(m, t, 0.2, false); }},
        {"plain_input", [](Layers &, Batch &t) { return plain_input(t, 0, true); }},
        {"plain_input_dropout", [](Layers &, Batch &t) { return plain_input(t, 0.2, true); }},
        {"plain_input_no_grad",
         [](Layers &, Batch &t) {
             torch::NoGradGuard no_grad;
             return plain_input(t, 0, false);
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
             torch::Tensor x = heads(m.flat(t.series));
             return at::scaled_dot_product_attention(x, x, x, {}, 0.0, true);
         }},
        {"fused_dropout",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series));
             return at::scaled_dot_product_attention(x, x, x, {}, 0.2, true);
         }},
        {"fused_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series));
             return at::scaled_dot_product_attention(x, x, x, torch::ones({5, 5}).tril().to(torch::kBool));
         }},
        {"fused_row_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series));
             torch::Tensor mask = (torch::arange(5).unsqueeze(0) <= t.target.unsqueeze(1)).view({t.rows, 1, 1, 5});
             return at::scaled_dot_product_attention(x, x, x, mask);
         }},
        {"fused_own_mask",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series));
             return at::scaled_dot_product_attention(x, x, x, torch::matmul(x, x.transpose(2, 3)).tanh());
         }},
        {"fused_plain_keys",
         [](Layers &m, Batch &t) {
             torch::Tensor y = t.noise.view({t.rows, 3, 1, 4}).expand({t.rows, 3, 5, 4});
             return at::scaled_dot_product_attention(heads(m.flat(t.series)), y, y);
         }},
        {"fused_one_head",
         [](Layers &m, Batch &t) {
             torch::Tensor x = m.flat(t.series);
             return at::scaled_dot_product_attention(x, x, x);
         }},
        {"fused_merged",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series)).reshape({t.rows * 3, 5, 4});
             return at::scaled_dot_product_attention(x, x, x);
         }},
        {"fused_sequence_first",
         [](Layers &m, Batch &t) {
             torch::Tensor x = heads(m.flat(t.series)).transpose(0, 1);
             return at::scaled_dot_product_attention(x, x, x);
         }},
#endif
    };
    return run_cases(cases, count, words);
}
