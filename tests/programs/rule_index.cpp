/* Indices, and writing in place to what a network computes or to buffers of the program's own. */
#include "rule_case.h"

using torch::indexing::None;
using torch::indexing::Slice;

static torch::Tensor changed(const torch::Tensor &tensor, const std::function<void(torch::Tensor &)> &change) {
    torch::Tensor result = tensor * 1;
    change(result);
    return result;
}

static torch::Tensor buffer_of_steps(Layers &m, Batch &t) { /* a preallocated buffer, filled step by step */
    torch::Tensor outputs = torch::zeros({5, t.rows, 12});
    for (int64_t i = 0; i < 5; i++) {
        outputs[i] = m.flat(t.series.select(1, i));
    }
    return outputs;
}

static torch::Tensor running_totals(Layers &m, Batch &t) {
    torch::Tensor total = torch::zeros({12}), rows = torch::zeros({t.rows, 12}), count = torch::zeros({6});
    torch::Tensor h = m.flat(t.flat).detach();
    total += h.sum(0);
    total.add_(h.mean(0));
    rows += h;
    rows.index({Slice(), 2}) = h.index({Slice(), 3});
    count.index_add_(0, t.target, h.index({Slice(), 0}));
    count.index_put_({m.scores(t.flat).argmax(1)}, torch::ones({1}), true);
    return torch::cat({total, rows.sum(0), count});
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    Cases cases = {
        {"select_columns",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).index_select(1, torch::tensor({3, 1, 1}));
         }},
        {"select_rows",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).index_select(0, torch::tensor({3, 1, 1}));
         }},
        {"index_columns",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).index({Slice(), torch::tensor({0, 5, 2})});
         }},
        {"index_rows",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).index({torch::tensor({0, 5, 2})});
         }},
        {"index_order",
         [](Layers &m, Batch &t) {
             torch::Tensor order = torch::arange(t.rows).flip(0);
             return m.flat(t.flat).index({order}) + m.flat(t.flat).index({order - t.rows}) * 2;
         }},
        {"index_mask", [](Layers &m, Batch &t) { return m.flat(t.flat).index({t.mask}); }},
        {"index_own_mask", [](Layers &m, Batch &t) { return m.flat(t.flat).index({m.other(t.flat) > 0}); }},
        {"index_targets",
         [](Layers &m, Batch &t) {
             return m.scores(t.flat).index({torch::arange(t.rows), t.target});
         }},
        {"index_targets_put",
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.scores(t.flat) * 1, rows = torch::arange(t.rows);
             h.index_put_({rows, t.target}, h.index({rows, t.target}) - 0.5);
             h.index_put_({rows, h.argmax(1)}, torch::ones({}), true);
             return h;
         }},
        {"index_last_of_each",
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.flat(t.series), rows = torch::arange(t.rows), last = t.target.clamp_max(h.size(1) - 1);
             return torch::cat({h.index({rows, last}), h.index({rows, Slice(), t.target}), h.index({rows, last - h.size(1)})}, 1);
         }},
        {"index_two",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).view({-1, 3, 4}).index({Slice(), torch::tensor({0, 2}), torch::tensor({1, 3})});
         }},
        {"index_apart",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).view({-1, 2, 3, 2}).index({Slice(), torch::tensor({0, 1}), Slice(), torch::tensor({1, 0})});
         }},
        {"index_new_dimension",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).index({Slice(), None, Slice(2, 5)});
         }},
        {"index_slice_rows", [](Layers &m, Batch &t) { return m.flat(t.flat).index({Slice(1, 5)}); }},
        {"index_last",
         [](Layers &m, Batch &t) {
             return m.flat(t.series).index({Slice(), -1});
         }},
        {"lookup", [](Layers &m, Batch &t) { return m.table.index({m.scores(t.flat).argmax(1)}); }},
        {"lookup_two",
         [](Layers &m, Batch &t) {
             return m.table.index({m.scores(t.flat).argmax(1), t.target.clamp_max(4)});
         }},
        {"lookup_table", [](Layers &m, Batch &t) { return m.table.index({m.scores(t.series).argmax(2)}); }},
        {"lookup_select", [](Layers &m, Batch &t) { return m.table.index_select(0, m.scores(t.flat).argmax(1)); }},
        {"gather", [](Layers &m, Batch &t) { return m.scores(t.flat).gather(1, t.target.unsqueeze(1)); }},
        {"one_hot", [](Layers &m, Batch &t) { return torch::one_hot(m.scores(t.flat).argmax(1), 6) * m.scores(t.flat); }},
        {"scatter",
         [](Layers &m, Batch &t) {
             return torch::zeros({t.rows, 6}).scatter_(1, t.target.unsqueeze(1), 1.0) * m.scores(t.flat);
         }},
        {"scatter_own",
         [](Layers &m, Batch &t) {
             return torch::zeros({t.rows, 6}).scatter_(1, m.scores(t.flat).argmax(1, true), 1.0);
         }},
        {"scatter_like",
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.scores(t.flat);
             return torch::zeros_like(h).scatter_(1, t.target.unsqueeze(1), 1.0) * h;
         }},
        {"scatter_rows",
         [](Layers &m, Batch &t) {
             return torch::zeros({6, 12}).scatter_add(0, t.target.unsqueeze(1).expand({t.rows, 12}), m.flat(t.flat));
         }},
        {"put_mask", [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) { h.index_put_({t.mask}, 0.5); }); }},
        {"put_own_mask",
         [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) { h.index_put_({h > 0}, 0.5); }); }},
        {"put_columns",
         [](Layers &m, Batch &t) {
             return changed(m.flat(t.flat), [&](torch::Tensor &h) { h.index_put_({Slice(), torch::tensor({1, 4})}, 0.5); });
         }},
        {"put_rows_of_values",
         [](Layers &m, Batch &t) {
             return changed(m.flat(t.flat), [&](torch::Tensor &h) {
                 h.index_put_({Slice(), torch::tensor({1, 4})}, t.noise.index({Slice(), Slice(0, 2)}));
             });
         }},
        {"put_own_values",
         [](Layers &m, Batch &t) {
             return changed(m.flat(t.flat), [&](torch::Tensor &h) {
                 h.index_put_({Slice(), torch::tensor({1, 4})}, m.scores(t.flat).index({Slice(), Slice(0, 2)}));
             });
         }},
        {"assign_columns",
         [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) {
                                       h.index({Slice(), Slice(2, 5)}) = 1;
                                   }); }},
        {"assign_column",
         [](Layers &m, Batch &t) {
             return changed(m.flat(t.flat), [&](torch::Tensor &h) { h.index({Slice(), 2}) = h.index({Slice(), 3}) * 2; });
         }},
        {"masked_fill_in_place",
         [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) { h.masked_fill_(t.mask, 2); }); }},
        {"assign_row", [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) { h[3] = 1; }); }}, /* stopped */
        {"put_rows",
         [](Layers &m, Batch &t) { return changed(m.flat(t.flat), [&](torch::Tensor &h) {
                                       h.index_put_({torch::tensor({0, 2})}, 9);
                                   }); }},
        {"buffer_of_steps", buffer_of_steps},
        {"buffer_of_slices",
         [](Layers &m, Batch &t) {
             torch::Tensor buffer = torch::zeros({t.rows, 14});
             buffer.index({Slice(), Slice(1, 13)}) = m.flat(t.flat);
             return buffer;
         }},
        {"buffer_of_rows",
         [](Layers &m, Batch &t) {
             torch::Tensor buffer = torch::zeros({2 * t.rows, 12});
             buffer.narrow(0, 0, t.rows).copy_(m.flat(t.flat));
             buffer.narrow(0, t.rows, t.rows).add_(m.other(t.flat));
             return buffer * 2;
         }},
        {"running_totals", running_totals},
        {"out_argument",
         [](Layers &m, Batch &t) {
             torch::NoGradGuard no_grad;
             torch::Tensor out = torch::empty({t.rows, 12});
             torch::add_out(out, m.flat(t.flat), t.noise);
             return out;
         }},
        {"swap_data",
         [](Layers &m, Batch &t) {
             torch::Tensor y = torch::zeros({t.rows, 12});
             y.set_data(m.flat(t.flat).detach());
             return y + m.other(t.flat);
         }},
        {"repeat",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).repeat({1, 2}) + m.flat(t.flat).repeat({1, 2}).flip(1);
         }},
        {"flip_rows", [](Layers &m, Batch &t) { return m.flat(t.flat).flip(0) * m.flat(t.flat); }},
        {"masked_select", [](Layers &m, Batch &t) { return m.flat(t.flat).masked_select(t.mask); }},
        {"nonzero", [](Layers &m, Batch &t) { return (m.flat(t.flat) > 0.3).nonzero(); }},
        {"take",
         [](Layers &m, Batch &t) {
             return m.flat(t.flat).take(torch::tensor({0, 5, 20}));
         }},
    };
    return run_cases(cases, count, words);
}
