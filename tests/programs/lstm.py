"""A word model with an LSTM, sequence first, hidden state carried and detached, gradients clipped, learning rate lowered by hand.

    lstm.py [tokens] [epochs]
"""
import math
import sys

import torch
import torch.nn as nn

from dump import dump_gradients, dump_parameters

tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 4000
epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
vocabulary, bptt, batch_size = 50, 20, 10
torch.manual_seed(1111)


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(vocabulary, 40)
        self.rnn = nn.LSTM(40, 64, 2)
        self.decoder = nn.Linear(64, vocabulary)
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, input, hidden):
        emb = self.drop(self.encoder(input))
        output, hidden = self.rnn(emb, hidden)
        decoded = self.decoder(self.drop(output))
        return decoded.view(-1, vocabulary), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(2, bsz, 64), weight.new_zeros(2, bsz, 64))


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


steps = torch.randint(1, 4, (tokens,))
corpus = batchify(torch.cumsum(steps, 0) % vocabulary, batch_size)
model = RNNModel()
criterion = nn.CrossEntropyLoss()
lr = 20.0
for epoch in range(1, epochs + 1):
    model.train()
    total_loss = 0.0
    hidden = model.init_hidden(batch_size)
    for batch, i in enumerate(range(0, corpus.size(0) - 1, bptt)):
        data, targets = get_batch(corpus, i)
        model.zero_grad()
        hidden = tuple(h.detach() for h in hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        dump_gradients(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for p in model.parameters():
                p.add_(p.grad, alpha=-lr)
        total_loss += loss.item()
        if batch % 5 == 4:
            print("| epoch {:3d} | {:5d}/{:5d} batches | lr {:02.2f} | loss {:5.4f} | ppl {:8.3f} | {} tokens".format(
                epoch, batch + 1, len(corpus) // bptt, lr, total_loss / 5, math.exp(total_loss / 5), data.numel()))
            total_loss = 0.0
    lr /= 2
dump_parameters(model)
