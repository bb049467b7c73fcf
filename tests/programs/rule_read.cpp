/* Looking at the memory of what a network computes, and writing to it: pointers, accessors, printing, items. */
#include "rule_case.h"

#include <cstring>
#include <iostream>
#include <sstream>

static torch::Tensor from_text(const torch::Tensor &tensor) { /* as printed, so that a case compares the text */
    std::ostringstream text;
    text << tensor;
    double sum = 0;
    for (char c : text.str()) {
        sum = sum * 1.01 + c;
    }
    return torch::tensor(sum / 1e6);
}

static torch::Tensor sum_of_pointer(const torch::Tensor &tensor) {
    const float *values = tensor.data_ptr<float>();
    double sum = 0;
    for (int64_t i = 0; i < tensor.numel(); i++) {
        sum += values[i] * static_cast<double>(i % 5);
    }
    return torch::tensor(sum);
}

static torch::Tensor sum_of_const_pointers(const torch::Tensor &tensor) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 5) /* const_data_ptr<const float> since 2.3 */
    const float *values = tensor.const_data_ptr<float>(), *same = tensor.const_data_ptr<const float>();
    double sum = 0;
    for (int64_t i = 0; i < tensor.numel(); i++) {
        sum += (values[i] + same[i] + tensor.mutable_data_ptr<float>()[i]) * static_cast<double>(i % 5);
    }
    return torch::tensor(sum);
#else
    return sum_of_pointer(tensor);
#endif
}

/* What OpenCV, Eigen and memcpy are given. */
static torch::Tensor sum_of_untyped(const torch::Tensor &tensor) {
    const auto *values = static_cast<const float *>(tensor.data_ptr());
    double sum = 0;
    for (int64_t i = 0; i < tensor.numel(); i++) {
        sum += values[i] * static_cast<double>(i % 5);
    }
#if TORCH_VERSION_MAJOR >= 2
    const auto *same = static_cast<const float *>(tensor.const_data_ptr());
    for (int64_t i = 0; i < tensor.numel(); i++) {
        sum += same[i] * static_cast<double>(i % 7) + static_cast<const float *>(tensor.mutable_data_ptr())[i];
    }
#endif
    return torch::tensor(sum);
}

static torch::Tensor sum_of_storage(const torch::Tensor &tensor) {
    torch::Storage storage = tensor.storage(), again = tensor.storage();
    const auto *values = static_cast<const float *>(storage.data_ptr().get());
    double sum = static_cast<double>(storage.nbytes());
    for (size_t i = 0; i < storage.nbytes() / sizeof(float); i++) {
        sum += values[i] * static_cast<double>(i % 5);
    }
    return torch::tensor(sum + (storage.unsafeGetStorageImpl() == again.unsafeGetStorageImpl()));
}

static torch::Tensor untyped_between_operators(Layers &m, Batch &t) { /* its own rows are there again for each operator, and for backward */
    torch::Tensor h = m.flat(t.flat), y = h * h;
    double sum = sum_of_untyped(h).item<double>();
    torch::Tensor z = h.relu() + y, alias = h.detach(), view = h.view(-1);
    sum += sum_of_untyped(z).item<double>() + sum_of_untyped(alias).item<double>() + sum_of_untyped(view).item<double>();
    h.data_ptr(); /* and left so */
    return z * sum + h.sum(1, true);
}

static torch::Tensor write_untyped(Layers &m, Batch &t) {
    torch::Tensor h = m.flat(t.flat);
    static_cast<float *>(h.data_ptr())[12 * (t.rows - 1)] = -3;
    std::vector<float> row(12, 0.5);
    std::memcpy(static_cast<float *>(h.data_ptr()) + 12, row.data(), 12 * sizeof(float));
    return h * h;
}

static torch::Tensor untyped_outlives(Layers &m, Batch &t) { /* a tensor that ends while the program has looked at it, and one over its memory */
    double sum = 0;
    for (int i = 0; i < 3; i++) {
        torch::Tensor h = m.flat(t.flat).detach();
        torch::Tensor other = torch::from_blob(h.data_ptr(), {t.rows, 12});
        sum += other.abs().sum().item<double>();
        h.data_ptr();
    }
    return torch::tensor(sum);
}

struct Keeper : torch::nn::Module { /* the last activations, as a buffer */
    Keeper() {
        kept = register_buffer("kept", torch::zeros({1}));
    }
    torch::Tensor kept;
};

static torch::Tensor saved_as_buffer(const torch::Tensor &tensor) {
    auto keeper = std::make_shared<Keeper>(), loaded = std::make_shared<Keeper>();
    keeper->kept.set_data(tensor.detach());
    std::stringstream file;
    torch::save(keeper, file);
    torch::load(loaded, file);
    return loaded->kept;
}

static torch::Tensor saved_alone(const torch::Tensor &tensor) {
    std::stringstream file;
    torch::Tensor loaded;
    torch::save(tensor.detach(), file);
    torch::load(loaded, file);
    return loaded;
}

static torch::Tensor through_accessor(const torch::Tensor &tensor) {
    auto values = tensor.accessor<float, 2>();
    double sum = 0;
    for (int64_t i = 0; i < values.size(0); i++) {
        for (int64_t j = 0; j < values.size(1); j++) {
            sum += values[i][j] * static_cast<double>(i - j);
        }
    }
    return torch::tensor(sum);
}

static torch::Tensor write_pointer(Layers &m, Batch &t) {
    torch::Tensor h = m.flat(t.flat);
    float *values = h.data_ptr<float>();
    values[0] = 5;
    values[12 * (t.rows - 1)] = -3;
    return h * h; /* sees the writes; so does backward */
}

static torch::Tensor write_before_backward(Layers &m, Batch &t) {
    torch::Tensor h = m.flat(t.flat), y = h * h;
    h.data_ptr<float>()[12 * (t.rows - 1) + 1] = 2;
    return y; /* backward reads h */
}

static torch::Tensor write_through_view(Layers &m, Batch &t) {
    torch::Tensor h = m.flat(t.flat);
    h.view(-1).data_ptr<float>()[7] = 4;
    auto values = h.accessor<float, 2>();
    values[t.rows - 1][3] = 1.5;
    return h * 2;
}

static torch::Tensor read_after_in_place(Layers &m, Batch &t) {
    torch::NoGradGuard no_grad;
    torch::Tensor h = m.flat(t.flat);
    const float *values = h.data_ptr<float>();
    float before = values[20];
    h.mul_(3);
    return torch::tensor(before * 100 + values[20]);
}

static torch::Tensor written_and_in_place(Layers &m, Batch &t) {
    torch::NoGradGuard no_grad;
    torch::Tensor h = m.flat(t.flat);
    float *values = h.data_ptr<float>();
    values[15] = 8;
    h.add_(1);
    values[16] = values[15] * 2;
    return torch::cat({h, h + 1}, 1);
}

static torch::Tensor rows_one_by_one(const torch::Tensor &tensor) {
    double sum = 0;
    for (int64_t i = 0; i < tensor.size(0); i++) {
        sum += tensor[i][2].item<double>() * static_cast<double>(i);
    }
    return torch::tensor(sum);
}

static torch::Tensor labels(const torch::Tensor &scores, const torch::Tensor &target) {
    torch::Tensor best = scores.argmax(1);
    const int64_t *values = best.data_ptr<int64_t>();
    auto right = target.accessor<int64_t, 1>();
    int correct = 0;
    for (int64_t i = 0; i < best.numel(); i++) {
        correct += values[i] == right[i];
    }
    return torch::tensor(correct) + best.to(torch::kInt).data_ptr<int>()[best.numel() - 1] + best.gt(2).data_ptr<bool>()[0];
}

static torch::Tensor vector_of(const torch::Tensor &tensor) {
    torch::Tensor flat = tensor.detach().contiguous().view(-1);
    std::vector<float> values(flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    return torch::tensor(values);
}

int main(int count, char **words) {
    torch::set_num_threads(1);
    Cases cases = {
        {"print", [](Layers &m, Batch &t) { return from_text(m.flat(t.flat).detach()); }},
        {"print_loss", [](Layers &m, Batch &t) { return from_text(m.flat(t.flat).sum().mul(10).round()); }},
        {"print_history", [](Layers &m, Batch &t) { return from_text(m.flat(t.flat)); }},
        {"print_mask", [](Layers &m, Batch &t) { return from_text(m.flat(t.flat) > 0); }},
        {"pointer", [](Layers &m, Batch &t) { return sum_of_pointer(m.flat(t.flat)); }},
        {"pointer_const", [](Layers &m, Batch &t) { return sum_of_const_pointers(m.flat(t.flat)); }},
        {"pointer_detached", [](Layers &m, Batch &t) { return sum_of_pointer(m.flat(t.flat).detach()); }},
        {"pointer_transposed", [](Layers &m, Batch &t) { return sum_of_pointer(m.flat(t.flat).t().contiguous()); }},
        {"pointer_loss", [](Layers &m, Batch &t) { return torch::tensor(m.flat(t.flat).mean().data_ptr<float>()[0]); }},
        {"pointer_image", [](Layers &m, Batch &t) { return sum_of_pointer(m.image(t.pictures)); }},
        {"pointer_double",
         [](Layers &m, Batch &t) { return torch::tensor(m.flat(t.flat).to(torch::kDouble).data_ptr<double>()[t.rows * 12 - 1]); }},
        {"accessor", [](Layers &m, Batch &t) { return through_accessor(m.flat(t.flat)); }},
        {"accessor_transposed", [](Layers &m, Batch &t) { return through_accessor(m.flat(t.flat).t()); }},
        {"accessor_expanded",
         [](Layers &m, Batch &t) {
             return through_accessor(m.flat(t.flat).sum(1, true).expand({t.rows, 3}));
         }},
        {"accessor_sequence_first", [](Layers &m, Batch &t) { return through_accessor(m.flat(t.series).transpose(0, 1).select(2, 1)); }},
        {"item",
         [](Layers &m, Batch &t) {
             return torch::tensor(m.flat(t.flat)[t.rows - 1][3].item<float>() + m.flat(t.flat).max().item().toDouble());
         }},
        {"rows", [](Layers &m, Batch &t) { return rows_one_by_one(m.flat(t.flat)); }},
        {"labels", [](Layers &m, Batch &t) { return labels(m.scores(t.flat), t.target); }},
        {"vector", [](Layers &m, Batch &t) { return vector_of(m.flat(t.flat)); }},
        {"widened_loss", /* is still a float: std::cout prints all its digits */
         [](Layers &m, Batch &t) {
             double loss = m.flat(t.flat).mean().to(torch::kDouble).item<double>();
             return torch::tensor(loss == static_cast<double>(static_cast<float>(loss)));
         }},
        {"to_cpu", [](Layers &m, Batch &t) { return sum_of_pointer(m.flat(t.flat).to(torch::kCPU)); }},
        {"equal",
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.flat(t.flat);
             return torch::tensor(h.equal(h * 1) + 2 * torch::allclose(h, h + 1e-9) + 4 * h.equal(h + 1) + 8 * h.detach().equal(t.noise));
         }},
        {"row_pointer", [](Layers &m, Batch &t) { return torch::tensor(m.flat(t.flat)[t.rows - 2].data_ptr<float>()[1]); }},
        {"kept_row_pointers", /* of views that are gone, while what they are views of is not */
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.flat(t.flat).detach();
             std::vector<const float *> rows;
             for (int64_t i = 0; i < t.rows; i++)
                 rows.push_back(h[i].data_ptr<float>());
             torch::Tensor other = m.flat(t.flat * 2).relu().sum();
             float sum = 0;
             for (const float *row : rows)
                 sum += row[1];
             h.mul_(2);
             return other.detach() + sum + rows[0][0];
         }},
        {"pointers_into_outputs", /* with histories: windows that come later leave them alone */
         [](Layers &m, Batch &t) {
             std::vector<torch::Tensor> outs;
             std::vector<const float *> rows;
             for (int i = 1; i < 9; i++) {
                 outs.push_back(m.flat(t.flat * i));
                 rows.push_back(outs.back()[0].data_ptr<float>());
             }
             torch::Tensor other = m.flat(t.flat).relu().sum();
             float sum = 0;
             for (const float *row : rows)
                 sum += row[1];
             return other.detach() + sum;
         }},
        {"untyped", [](Layers &m, Batch &t) { return sum_of_untyped(m.flat(t.flat)); }},
        {"untyped_transposed", [](Layers &m, Batch &t) { return sum_of_untyped(m.flat(t.flat).t().contiguous()); }},
        {"untyped_image", [](Layers &m, Batch &t) { return sum_of_untyped(m.image(t.pictures)); }},
        {"untyped_columns", /* a view that begins within its memory */
         [](Layers &m, Batch &t) {
             torch::Tensor part = m.flat(t.flat).slice(1, 3, 9);
             const auto *values = static_cast<const float *>(part.data_ptr());
             return torch::tensor(values[(t.rows - 1) * part.stride(0) + 2] + values[0]);
         }},
        {"untyped_loss", [](Layers &m, Batch &t) { return torch::tensor(*static_cast<float *>(m.flat(t.flat).mean().data_ptr())); }},
        {"untyped_labels",
         [](Layers &m, Batch &t) {
             torch::Tensor best = m.scores(t.flat).argmax(1);
             return torch::tensor(static_cast<int64_t *>(best.data_ptr())[t.rows - 1]);
         }},
        {"untyped_between_operators", untyped_between_operators},
        {"untyped_outlives", untyped_outlives},
        {"storage", [](Layers &m, Batch &t) { return sum_of_storage(m.flat(t.flat)); }},
        {"storage_loss", [](Layers &m, Batch &t) { return sum_of_storage(m.flat(t.flat).mean()); }},
        {"saved_as_buffer", [](Layers &m, Batch &t) { return saved_as_buffer(m.flat(t.flat)); }},
        {"saved_alone", [](Layers &m, Batch &t) { return saved_alone(m.flat(t.flat)); }},
        {"saved_loss", [](Layers &m, Batch &t) { return saved_as_buffer(m.flat(t.flat).mean()); }},
        {"write_untyped", write_untyped},
        {"write_pointer", write_pointer},
        {"write_before_backward", write_before_backward},
        {"write_through_view", write_through_view},
        {"read_after_in_place", read_after_in_place},
        {"written_and_in_place", written_and_in_place},
        {"write_loss",
         [](Layers &m, Batch &t) {
             torch::Tensor loss = m.flat(t.flat).sum();
             loss.data_ptr<float>()[0] = 3;
             return loss * 2;
         }},
        {"write_kept_row",
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.flat(t.flat).detach();
             auto *row = h[1].data_ptr<float>();
             torch::Tensor other = m.flat(t.flat * 2).sum();
             row[0] = 7;
             return h * 2 + other.detach();
         }},
        {"write_row", /* stopped: the row is a copy put together to be read */
         [](Layers &m, Batch &t) {
             torch::Tensor h = m.flat(t.flat).detach();
             h[1].data_ptr<float>()[0] = 7;
             return h * 2;
         }},
    };
    return run_cases(cases, count, words);
}
