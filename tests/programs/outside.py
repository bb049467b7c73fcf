"""Batches with an index that is none: what libtorch throws is caught, said and gone on from. In the first row, and in the last."""
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
embedding, hidden, head = nn.Embedding(11, 6), nn.Linear(6, 8), nn.Linear(8, 5)
parameters = [*embedding.parameters(), *hidden.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.1)


def scores_of(words):
    return head(torch.tanh(hidden(embedding(torch.stack([words, words], 1)[:, 0]))))


def loss_of(kind, scores, targets):
    if kind == "gather":
        return -scores.log_softmax(1).gather(1, targets[:, None]).mean()
    if kind == "weighted":
        return functional.cross_entropy(scores, targets, torch.arange(1.0, 6.0))
    if kind == "byte":
        return functional.cross_entropy(scores, targets.abs().to(torch.uint8))
    if kind == "column":
        return functional.cross_entropy(scores, torch.stack([targets, targets], 1)[:, 1])
    if kind == "wide":
        return functional.cross_entropy(scores[:, :, None].expand(-1, -1, 3), targets[:, None].expand(-1, 3))
    if kind == "select":
        return scores.index_select(0, targets.abs() + (targets > 5) * 100).mean()
    if kind == "margin":
        return functional.multi_margin_loss(scores, targets)
    if kind == "margins":
        return functional.multilabel_margin_loss(scores, torch.stack([targets, *[torch.full_like(targets, -1)] * 4], 1))
    if kind == "own":  # targets that are divided already
        return functional.cross_entropy(scores, targets + scores.argmax(1) * 0)
    if kind == "scatter":
        wanted = torch.zeros(scores.shape).scatter(1, targets[:, None], 1.0)
        return functional.mse_loss(scores + 0 * wanted, wanted) + (scores * 0).scatter(1, targets[:, None], 1.0).mean()
    return functional.cross_entropy(scores, targets, reduction=kind).mean()


for kind in ("mean", "sum", "none", "weighted", "own", "byte", "column", "wide", "gather", "scatter", "select", "margin", "margins"):
    for place in (None, 0, 13):
        words, targets = torch.randint(0, 11, (14,)), torch.randint(0, 5, (14,))
        if kind in ("mean", "sum", "none", "weighted", "own", "column", "wide"):
            targets[3] = -100
        for what in ("targets", "words"):
            if place is not None:
                (targets if what == "targets" else words)[place] = 12
            try:
                loss = loss_of(kind, scores_of(words), targets)
            except (IndexError, RuntimeError) as problem:
                print(kind, place, what, type(problem).__name__, str(problem)[:46])
                targets[0 if place == 0 else 13] = 1
                continue
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(kind, place, what, "%.5f" % loss.item())
            words[0 if place == 0 else 13] = 1
print("end %.5f" % sum(parameter.sum().item() for parameter in parameters))
