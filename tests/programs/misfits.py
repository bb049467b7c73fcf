"""Tensors that do not fit together: the message is of whole sizes, on every rank, and training goes on. Operators of the program's own that write."""
import torch

torch.manual_seed(5)
batch = torch.randn(13, 8)
model = torch.nn.Linear(8, 8)
narrow = torch.ones(4, 4)
library = torch.library.Library("misfits", "DEF")
library.define("scale(Tensor(a!) x) -> Tensor")
library.define("each(Tensor(a!)[] x) -> ()")
library.define("both(Tensor(a!) x, Tensor(b!) y) -> ()")
KEY = "CompositeExplicitAutograd"
library.impl("scale", lambda x: x.mul_(3).clone(), KEY)
library.impl("each", lambda tensors: [x.mul_(3) for x in tensors] and None, KEY)
library.impl("both", lambda x, y: (x.mul_(3), y.add_(1)) and None, KEY)

sequences = torch.randn(13, 12, 8)
encoder = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


def spoken_loss(targets, times=(12,) * 13, lengths=(4,) * 13):
    torch.nn.functional.ctc_loss(spoken, targets.long(), tuple(times), tuple(lengths))


def encoded(rows):  # as many rows of padding as one of the ranks has, or as there are
    padding = torch.zeros(rows, 12, dtype=torch.bool)
    padding[:, 9:] = True
    with torch.no_grad():
        print(f"{encoder(model(sequences), src_key_padding_mask=padding).abs().sum().item():.4f}")


for step in range(2):
    hidden = model(batch)
    held = hidden.detach()
    spoken = model(sequences).log_softmax(2).transpose(0, 1)
    for attempt in (
        lambda: model(hidden[:, :3]),
        lambda: torch.nn.functional.linear(hidden, torch.ones(8, 8), torch.ones(5)),
        lambda: hidden @ narrow,
        lambda: hidden.mm(narrow),
        lambda: hidden.mm(narrow[0]),
        lambda: narrow @ hidden,
        lambda: torch.bmm(hidden.view(13, 2, 4), torch.ones(13, 5, 2)),
        lambda: hidden.expand(13, 9),
        lambda: hidden.expand(3, 13, 7),
        lambda: held.add_(torch.ones(3, 13, 8)),
        lambda: held[:, :1].clone().mul_(torch.ones(13, 8)),
        lambda: held.add_(torch.ones(5)),
        lambda: hidden.mv(torch.ones(5)),
        lambda: torch.addmm(torch.ones(5), hidden, torch.ones(8, 8)),
        lambda: torch.addmm(torch.ones(4, 8), hidden, torch.ones(8, 8)),
        lambda: torch.baddbmm(torch.ones(5), hidden.view(13, 2, 4), torch.ones(13, 4, 3)),
        lambda: torch.baddbmm(torch.ones(3), hidden.view(13, 2, 4), torch.ones(13, 5, 3)),
        lambda: torch.nn.Conv2d(5, 4, 1)(hidden.view(13, 2, 2, 2)),
        lambda: torch.nn.ConvTranspose2d(5, 4, 1)(batch.view(13, 2, 2, 2)),
        lambda: torch.nn.LayerNorm(5)(hidden),
        lambda: torch.nn.BatchNorm1d(5)(hidden),
        lambda: torch.nn.functional.instance_norm(hidden.view(13, 2, 4), weight=torch.ones(5), bias=torch.ones(5)),
        lambda: torch.nn.functional.scaled_dot_product_attention(hidden.view(13, 2, 4), torch.ones(13, 2, 5), torch.ones(13, 2, 4)),
        lambda: hidden.select(1, 9),
        lambda: hidden.select(-7, 0),
        lambda: hidden.squeeze(2),
        lambda: hidden.cumsum(1 << 30),
        lambda: hidden.softmax(-9),
        lambda: hidden.squeeze((0, -3)),
        lambda: torch.nn.functional.group_norm(hidden, 3),
        lambda: (hidden * 1).detach().masked_fill_(torch.ones(13, 5, dtype=torch.bool), 0),
        lambda: (hidden * 1).detach().__setitem__(torch.ones(13, 5, dtype=torch.bool), 0),
        lambda: (hidden * 1).__setitem__((slice(None), [1, 4]), torch.ones(13, 3)),
        lambda: (hidden * 1).__setitem__((slice(None), torch.arange(8) > 5), torch.ones(12, 2)),
        lambda: hidden[:, torch.arange(9) > 5],
        lambda: spoken_loss(torch.ones(6, 4)),
        lambda: spoken_loss(torch.ones(20, 4)),
        lambda: spoken_loss(torch.ones(80)),
        lambda: spoken_loss(torch.ones(30)),
        lambda: spoken_loss(torch.ones(13, 4), times=[12] * 5),
        lambda: spoken_loss(torch.ones(13, 4), lengths=[4] * 12 + [5]),
        lambda: spoken_loss(torch.ones(13, 4), times=[12] * 12 + [14]),
        lambda: encoded(7),
        lambda: encoded(13),
    ):
        try:
            attempt()
            print("it fits")
        except (RuntimeError, IndexError, TypeError, AttributeError) as error:  # older releases lack some
            print(str(error).splitlines()[0])
    twice = torch.ops.misfits.scale(held)
    torch.ops.misfits.each([held])
    torch.ops.misfits.both(held, twice)
    twice = twice + torch.nn.functional.linear(held, torch.ones(8, 8), batch)  # a bias for each row
    loss = (hidden.nansum(1) + hidden.nanmean(1, keepdim=True).sum(1)).pow(2).mean()
    model.zero_grad()
    loss.backward()
    print(f"{held.sum().item():.4f} {twice.sum().item():.4f} {loss.item():.5f} {model.weight.grad.norm().item():.5f}")

# Shapes alone: nothing is divided where there are no values.
shapes = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.BatchNorm1d(6), torch.nn.Unflatten(1, (3, 2)), torch.nn.LSTM(2, 4, batch_first=True)).to("meta")
output = shapes(torch.empty(13, 8, device="meta"))[0]
torch.nn.functional.cross_entropy(output[:, -1], torch.empty(13, dtype=torch.long, device="meta")).backward()
print(tuple(output.shape), tuple(shapes[0].weight.grad.shape))
