"""Masks and indices that are expanded, images that are cropped, columns of a table: what meets divided rows with gaps in its memory, or with elements that it
repeats. Of an expanded index no copy is made of what it repeats."""
import resource

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(1)


def tell(what, loss, model):
    model.zero_grad()
    loss.backward()
    print(what, "%.5f" % loss.item(), " ".join("%.5f" % parameter.grad.norm().item() for parameter in model.parameters()))


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def indices_in_little_memory():
    model, data = nn.Linear(6, 64), torch.randn(64, 8, 6)
    index = torch.randint(0, 8, (64, 2048)).unsqueeze(-1).expand(-1, -1, 64)  # 64 MiB, were it there once for each element
    with torch.no_grad():
        model(data).gather(1, index[:, :1]).sum().item()
        before = megabytes()
        total = model(data).gather(1, index).sum()
        print("index", "%.2f" % total.item(), "in little memory:", megabytes() - before < 56)


def masks():
    model, data = nn.Linear(8, 12), torch.randn(14, 5, 8)
    padding = torch.rand(14, 5) < 0.3
    mask = padding[:, None, None, :].expand(14, 3, 5, 5)
    heads = model(data).view(14, 5, 3, 4).transpose(1, 2)
    scores = heads @ heads.transpose(2, 3)
    tell("masked_fill", scores.masked_fill(mask, -5.0).softmax(-1).pow(2).sum(), model)
    heads = model(data).view(14, 5, 3, 4).transpose(1, 2)
    tell("where", torch.where(mask.transpose(2, 3), heads @ heads.transpose(2, 3), torch.ones(())).pow(2).mean(), model)
    index = torch.randint(0, 5, (14, 6)).unsqueeze(-1).expand(-1, -1, 12)
    tell("gather", model(data).gather(1, index).pow(2).sum(), model)
    tell("nothing", model(data).gather(1, index[:, :0]).sum() + model(data).sum(), model)


def crops():
    images = torch.randn(14, 3, 10, 9)
    for layout in images, images.contiguous(memory_format=torch.channels_last):
        model = nn.Conv2d(3, 4, 3)
        tell("crop", model(layout[:, :, 1:8, 2:8]).pow(2).mean(), model)
        tell("every second", model(layout[:, :, ::2, 1::2]).pow(2).mean(), model)
    model = nn.Linear(4, 3)
    tell("windows", model(torch.randn(14, 9).unfold(1, 4, 2)).pow(2).mean(), model)
    tell("the same row", model(torch.randn(1, 4).expand(14, 4)).pow(2).mean(), model)


def columns():
    table, model, classes = torch.randint(0, 6, (14, 5)), nn.Embedding(6, 4), nn.Linear(4, 6)
    tell("column", functional.cross_entropy(classes(model(table[:, 1:4:2]).sum(1)), table[:, 4]), nn.ModuleList([model, classes]))


indices_in_little_memory()
masks()
crops()
columns()
