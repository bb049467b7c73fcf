"""Models of sequences as tutorials have them: time before rows, torch.nn's attention and transformers, packed sequences. Each case trains for some steps and
prints what it computes, so that a run of several ranks can be compared with a plain one.

    sequences.py [CASE...] [--rows N] [--time N] [--width N] [--words N] [--steps N] [--seconds]

--seconds: says on standard error how long each case's steps took, but the first.
"""
import argparse
import time
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

warnings.simplefilter("ignore")
parser = argparse.ArgumentParser()
parser.add_argument("cases", nargs="*")
for name, number in ("rows", 7), ("time", 5), ("width", 8), ("words", 11), ("steps", 2):
    parser.add_argument(f"--{name}", type=int, default=number)
parser.add_argument("--seconds", action="store_true")
options = parser.parse_args()
ROWS, TIME, WIDTH, WORDS, HEADS = options.rows, options.time, options.width, options.words, 2
DTYPE = torch.float32 if options.seconds else torch.float64
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def words(time=None, first=False, rows=ROWS):
    time = time or TIME
    return torch.randint(WORDS, (rows, time) if first else (time, rows))


def signal(time=None, first=False):
    time = time or TIME
    return torch.randn((ROWS, time, WIDTH) if first else (time, ROWS, WIDTH), dtype=DTYPE)


def figure(tensor):
    values = tensor.detach().double().reshape(-1)
    return f"{(values * torch.cos(torch.arange(values.numel(), dtype=torch.double))).sum().item():.10g}"


def triangle(size):
    return torch.full((size, size), float("-inf"), dtype=DTYPE).triu(1)


def padding(rows=ROWS, time=None):
    """True where a sequence has ended; the first two positions never are."""
    return torch.arange(time or TIME) >= torch.randint(2, (time or TIME) + 1, (rows, 1))


class Words(nn.Module):
    """A language model whose logits are (time, rows, words)."""

    def __init__(self, body):
        super().__init__()
        self.table, self.drop, self.body, self.head = nn.Embedding(WORDS, WIDTH), nn.Dropout(0.1), body, nn.Linear(WIDTH, WORDS)

    def forward(self, x, *more):
        x = self.drop(self.table(x))
        x = self.body(x, *more)
        return self.head(self.drop(x[0] if isinstance(x, tuple) else x))


# ---- time first, rows merged behind the time


@case
def lm_lstm():
    model, x, y = Words(nn.LSTM(WIDTH, WIDTH)), words(), words()
    return model, lambda: F.cross_entropy(model(x).view(-1, WORDS), y.view(-1))


@case
def lm_losses():
    """Every way to reduce, ignored targets, weights of classes, smoothed labels, and what is computed from merged rows by hand."""
    model, x, y = Words(nn.GRU(WIDTH, WIDTH)), words(), words()
    y[-1, :2] = -100
    weight = torch.linspace(0.5, 2, WORDS, dtype=DTYPE)

    def loss():
        logits = model(x).reshape(TIME * ROWS, WORDS)
        target = y.reshape(-1)
        each = F.cross_entropy(logits, target, reduction="none")
        right = (logits.argmax(-1) == target).sum().item()
        mixed = F.cross_entropy(logits, target, weight, label_smoothing=0.1) + F.nll_loss(F.log_softmax(logits, -1), target, weight, reduction="sum") * 0.01
        return F.cross_entropy(logits, target) + mixed + (each * (target > 2)).sum() / (target > 2).sum() + each.view(TIME, ROWS).mean(0).max() + right * 0.01

    return model, loss


@case
def lm_channels():
    """Classes in the second dimension, as cross_entropy takes more than two."""
    model, x, y = Words(nn.GRU(WIDTH, WIDTH)), words(), words()
    return model, lambda: F.cross_entropy(model(x).transpose(1, 2), y) + F.cross_entropy(model(x).permute(1, 2, 0), y.t())


@case
def lm_loop():
    """A cell stepped by the program; its outputs stacked or put one after the other."""
    cell, model, x, y = nn.LSTMCell(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS), signal(), words()

    def loss():
        h = c = torch.zeros(ROWS, WIDTH, dtype=DTYPE)
        out = []
        for step in x:
            h, c = cell(step, (h, c))
            out.append(h)
        logits = model(torch.cat(out))
        first, last = logits[:ROWS], logits[-ROWS:]
        return F.cross_entropy(logits, y.view(-1)) + F.cross_entropy(model(torch.stack(out)).view(-1, WORDS), y.flatten()) + (first - last).pow(2).mean()

    return nn.ModuleList([cell, model]), loss


@case
def lm_cells():
    """Words that a cell takes step by step."""
    table, cell, head, x, y = nn.Embedding(WORDS, WIDTH), nn.GRUCell(WIDTH, WIDTH), nn.Linear(WIDTH, WORDS), words(), words()

    def loss():
        embedded, h, out = table(x), torch.zeros(ROWS, WIDTH, dtype=DTYPE), []
        for step in range(TIME):
            h = cell(embedded[step], h)
            out.append(h)
        return F.cross_entropy(head(torch.stack(out)).view(-1, WORDS), y.view(-1))

    return nn.ModuleList([table, cell, head]), loss


@case
def merged_layers():
    """Layers on (time * rows, features): normalisation of all kinds, dropout, activation, products, a mask of merged rows, back to three dimensions."""
    mix = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Dropout(0.2), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH))
    model, x, keep = Words(nn.GRU(WIDTH, WIDTH)), words(), torch.rand(TIME * ROWS, 1, dtype=DTYPE) > 0.3

    def loss():
        h = model.table(x)
        flat = mix(h.reshape(-1, WIDTH)) * keep
        three = flat.view(TIME, ROWS, WIDTH)
        scores = torch.softmax(flat @ model.head.weight.t(), -1)
        return (flat.t() @ flat).pow(2).mean() + three.mean(0).pow(2).sum() + three.transpose(0, 1).flatten(1).std(1).sum() + scores.max(-1)[0].mean() + flat.unflatten(
            0, (TIME, ROWS)).sum(1).abs().max() * 0.1

    return nn.ModuleList([model, mix]), loss


@case
def views():
    """Two views of each row, one after the other along the rows, then apart again."""
    model, one, other = nn.Linear(WIDTH, WIDTH), torch.randn(ROWS, WIDTH, dtype=DTYPE), torch.randn(ROWS, WIDTH, dtype=DTYPE)

    def loss():
        both = torch.cat([model(one), model(other)]).tanh()
        left, right = both.chunk(2)
        again, _ = torch.split(both, ROWS)
        three = model(one).repeat(3, 1)
        middle = three[ROWS:2 * ROWS]
        return F.cosine_similarity(left, right).mean() + (again * right).sum(1).pow(2).mean() + (three.relu() * 0.1).sum() + middle.pow(2).mean() + both.view(
            2, ROWS, WIDTH).mean(0).pow(2).sum()

    return model, loss


@case
def writes():
    """In-place work on merged rows, their memory, and a part of them."""
    model, first, x, last = nn.Linear(WIDTH, WIDTH), nn.GRU(WIDTH, WIDTH), signal(), (torch.arange(ROWS) == ROWS - 1)[:, None]

    def loss():
        h = first(x)[0]
        answers = torch.equal(h, h * 1), torch.equal(h, h + last), torch.equal(h, h[:, :, :2])
        flat = model(h * (2 * answers[0] + answers[1] + answers[2])).view(-1, WIDTH)
        flat = flat * 1.0
        flat[:, 0] = 0.5
        flat.mul_(2).clamp_(-2, 2)
        flat.masked_fill_((torch.arange(TIME * ROWS) % 3 == 0)[:, None], 0.25)
        seen = flat.detach().numpy().sum()
        noise = torch.randn_like(flat)
        flat.data[2, 1] = 7.0
        flat.detach().numpy()[5] = 0.125
        return (flat * noise).pow(2).mean() + 0.01 * seen + flat[3].sum() + flat[:4].pow(2).mean() + flat.detach().tolist()[4][1] + torch.bernoulli(
            torch.sigmoid(flat.detach())).sum()

    return nn.ModuleList([model, first]), loss


@case
def ctc():
    """Many sequences with the time first, each with a length and a target of its own."""
    rows, steps = 40, 6
    model, x = nn.Linear(WIDTH, 5), torch.randn(steps, rows, WIDTH, dtype=DTYPE)
    lengths, targets = torch.randint(3, steps + 1, (rows,)), torch.randint(1, 5, (rows, 2))
    return model, lambda: F.ctc_loss(model(x).transpose(0, 1).log_softmax(-1).transpose(0, 1), targets, lengths, torch.full((rows,), 2))


# ---- torch.nn's attention


def attention(batch_first, **more):
    def make():
        model = nn.MultiheadAttention(WIDTH, HEADS, dropout=0.1, batch_first=batch_first, **more)
        x, memory, hidden = signal(first=batch_first), signal(TIME + 1, first=batch_first), padding(time=TIME + 1)
        mask, each = triangle(TIME), torch.randn(ROWS * HEADS, TIME, TIME, dtype=DTYPE)
        bias = torch.zeros(ROWS, TIME + 1, dtype=DTYPE).masked_fill(hidden, float("-inf"))

        def loss():
            own, none = model(x, x, x, need_weights=False, attn_mask=mask)
            own = own + model(x, x, x, need_weights=False, attn_mask=each)[0]
            cross, weights = model(own, memory, memory, key_padding_mask=hidden)
            last, heads = model(own, memory, memory, key_padding_mask=bias, average_attn_weights=False)
            return own.pow(2).mean() + cross.pow(2).mean() + (weights * weights).sum() + last.abs().mean() + heads.max(-1)[0].mean()

        return model, loss

    return make


CASES["attention"] = attention(False)
CASES["attention_first"] = attention(True)
CASES["attention_bias"] = attention(False, add_bias_kv=True, add_zero_attn=True)


def encoder(batch_first, **more):
    def make():
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.1, batch_first=batch_first, **more)
        model, x, y = Words(nn.TransformerEncoder(layer, 2)), words(first=batch_first), words(first=batch_first)
        mask, hidden = triangle(TIME), padding()
        return model, lambda: F.cross_entropy(model(x, mask).view(-1, WORDS), y.view(-1)) + F.cross_entropy(model(x, None, hidden).reshape(-1, WORDS), y.reshape(-1))

    return make


CASES["encoder"] = encoder(False)
CASES["encoder_first"] = encoder(True, norm_first=True, activation="gelu")


def decoder(batch_first):
    def make():
        model = nn.TransformerDecoder(nn.TransformerDecoderLayer(WIDTH, HEADS, 2 * WIDTH, dropout=0.1, batch_first=batch_first), 2)
        x, memory, hidden = signal(first=batch_first), signal(TIME + 1, first=batch_first), padding(time=TIME + 1)
        return model, lambda: model(x, memory, tgt_mask=triangle(TIME), memory_key_padding_mask=hidden).pow(3).mean()

    return make


CASES["decoder"] = decoder(False)
CASES["decoder_first"] = decoder(True)


def translator(batch_first):
    def make():
        table, head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS)
        model = nn.Transformer(WIDTH, HEADS, 1, 1, 2 * WIDTH, 0.1, batch_first=batch_first)
        source, target = words(TIME + 1, first=batch_first), words(TIME + 2, first=batch_first)
        source_hidden, target_hidden = padding(time=TIME + 1), padding(time=TIME + 1)
        given, wanted = (target[:, :-1], target[:, 1:]) if batch_first else (target[:-1], target[1:])

        def loss():
            out = model(table(source), table(given), None, triangle(TIME + 1), None, source_hidden, target_hidden, source_hidden)
            return F.cross_entropy(head(out).reshape(-1, WORDS), wanted.reshape(-1), ignore_index=3)

        return nn.ModuleList([table, head, model]), loss

    return make


CASES["translator"] = translator(False)
CASES["translator_first"] = translator(True)

# ---- packed sequences


def packed(layer, batch_first, sort, **more):
    def make():
        table, rnn, head = nn.Embedding(WORDS, WIDTH), layer(WIDTH, WIDTH, batch_first=batch_first, **more), nn.Linear(WIDTH * (1 + rnn_two(more)), WORDS)
        x, y = words(first=batch_first), words(first=batch_first)
        lengths = torch.randint(2, TIME + 1, (ROWS,))
        lengths[0] = TIME
        lengths = lengths if not sort else lengths.sort(descending=True)[0]

        def loss():
            sequence = pack_padded_sequence(table(x), lengths, batch_first=batch_first, enforce_sorted=sort)
            out, state = rnn(sequence)
            padded, _ = pad_packed_sequence(out, batch_first=batch_first, total_length=TIME)
            state = state[0] if isinstance(state, tuple) else state
            flat = head(padded).reshape(-1, WORDS)
            return F.cross_entropy(flat, y.reshape(-1), ignore_index=1) + state.pow(2).mean() + head(out.data).pow(2).mean() * 0.1

        return nn.ModuleList([table, rnn, head]), loss

    return make


def rnn_two(more):
    return int(more.get("bidirectional", False))


CASES["packed_lstm"] = packed(nn.LSTM, True, False, num_layers=2, dropout=0.2)
CASES["packed_gru"] = packed(nn.GRU, False, True, bidirectional=True)


@case
def packed_list():
    """A list of sequences, packed; classified by the last state."""
    model, head = nn.GRU(WIDTH, WIDTH), nn.Linear(WIDTH, 3)
    sequences, y = [torch.randn(1 + 3 * i % TIME, WIDTH, dtype=DTYPE) for i in range(ROWS)], torch.randint(3, (ROWS,))
    begin = torch.randn(1, ROWS, WIDTH, dtype=DTYPE)
    return nn.ModuleList([model, head]), lambda: F.cross_entropy(head(model(pack_sequence(sequences, enforce_sorted=False), begin)[1][-1]), y)


def main():
    for name in options.cases or CASES:
        torch.manual_seed(3)
        made, loss = CASES[name]()
        made.to(DTYPE)
        optimizer = torch.optim.SGD(made.parameters(), 0.05)
        begun = 0.0
        for step in range(options.steps):
            if step == 1:
                begun = time.perf_counter()
            optimizer.zero_grad()
            value = loss()
            value.backward()
            if options.seconds:
                optimizer.step()
                continue
            gradients = [figure(p.grad) for p in made.parameters() if p.grad is not None]
            optimizer.step()
            print(name, step, figure(value), *gradients, f"{torch.rand(()).item():.6f}", flush=True)
        if options.seconds:
            print(f"{name} {(time.perf_counter() - begun) / max(1, options.steps - 1):.5f} loss {value.item():.4f}")


main()
