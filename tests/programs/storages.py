"""Views of divided tensors: strides, offsets and storages are those of one process, and so are deep copies, pickles and files made of them."""
import copy
import io
import pickle

import torch

torch.manual_seed(5)
batch, sequences, images = torch.randn(13, 6), torch.randn(13, 5, 6), torch.randn(13, 3, 6, 6)
model, other = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)
steps, first = torch.nn.GRU(6, 4), torch.nn.GRU(6, 4, batch_first=True)
pictures, words = torch.nn.Conv2d(3, 4, 3), torch.nn.Embedding(10, 4)
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)


def views():
    h, t, b = model(batch).detach(), steps(sequences.transpose(0, 1))[0].detach(), first(sequences)[0].detach()
    c, e = pictures(images).detach(), words(torch.arange(26).view(13, 2) % 10).detach()
    last = c.contiguous(memory_format=torch.channels_last)
    turned = h.t().contiguous()
    return dict(
        whole=h, column=h[:, 1], columns=h[:, 1:3], turned=h.t(), row=h.t()[1], steps=t, last_step=t[-1], feature=t[:, :, 1], batches=b, last=b[:, -1],
        time=b.transpose(0, 1)[2], pictures=c, channel=c[:, 1], part=c[:, :, 1:, 2], channels_last=last, channel_last=last[:, 2], pair=h.view(13, 2, 2)[:, 1],
        expanded=h[:, :1].expand(13, 5), between=h.unsqueeze(1), before=h.unsqueeze(0), every_second=h[:, ::2], merged=b.flatten(0, 1),
        merged_column=b.flatten(0, 1)[:, 1], merged_steps=t.flatten(0, 1)[:, 2:], words=e, word=e[:, 1], half=h.chunk(2, 1)[1], columns_first=turned,
        columns_row=turned[2], diagonal=b.diagonal(0, 1, 2), top=h.topk(2)[1][:, 1], permuted=c.permute(2, 0, 3, 1), picked=c.permute(2, 0, 3, 1)[1],
        stacked=torch.stack([h, h * 2])[1], joined=torch.cat([h, h], 1)[:, 5:], split=b.split(2, 1)[1], cloned=h.clone()[:, 0], counts=(h > 0)[:, 2],
        hidden=first(sequences)[1][0].detach(), double=h.double()[:, 1:], sums=h.sum(0), some_sums=h.sum(0)[1:], mean=h.mean(), none=h[:, :0], narrow=torch.nn.Linear(6, 0)(batch).detach())


def number(tensor):
    return f"{tensor.double().sum().item():.4f} {(tensor.double().reshape(-1) * torch.arange(tensor.numel())).sum().item():.3f}"


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file)


for name, view in views().items():
    copies = copy.deepcopy(view), pickle.loads(pickle.dumps(view)), saved(view)
    again = torch.empty(0, dtype=view.dtype).set_(view.untyped_storage() if hasattr(view, "untyped_storage") else view.storage(), view.storage_offset(), view.size(), view.stride())
    print(name, tuple(view.shape), view.stride(), view.storage_offset(), view.is_contiguous(), len(view.storage()), *map(number, (view, *copies, again)))

h = model(batch).detach()
left, right = h.chunk(2, 1)
both = saved({"left": left, "right": right, "all": h})
both["left"].mul_(3)  # the three share one storage, as they did
print(*map(number, both.values()))
held = copy.deepcopy([h, h[:, 1]])
held[1].add_(5)
print(*map(number, held), number(h))
storage = h.untyped_storage() if hasattr(h, "untyped_storage") else h.storage()
seen = torch.empty(0).set_(storage, 0, (52,), (1,))
seen[5] = 100.0  # into the memory of all of it
print(*map(number, (h, h[:, 1], left)))
h = model(batch).detach()
one, two, three = h.numpy(), h.t().numpy(), h.view(-1).numpy()
one[3, 0] = 42
two[1, 4] = 43  # of one memory, with no operator in between
print(two[0, 3], three[12], one[4, 1], three[17], h.data_ptr() == h.t().data_ptr() == h.view(-1).data_ptr(), number(h))
h = model(batch)
alias = h.detach()
memory = alias.storage()
memory.resize_(0)  # given back: a backward of something else has nothing to look for there
other(batch).sum().backward()
print("given back", number(other.weight.grad))
memory.resize_(52)
torch.empty(0).set_(memory, 0, (52,), (1,)).fill_(2)
print("filled again", number(h.detach()), float(h.detach().numpy().sum()))


class Dead(torch.utils.data.IterableDataset):
    """In a worker, which is a child of a rank: what dies while its memory is looked at leaves it to nobody."""

    def __init__(self, features):
        self.features = features

    def __iter__(self):
        while self.features:
            feature = self.features.pop()
            (feature.untyped_storage if hasattr(feature, "untyped_storage") else feature.storage)().nbytes()
            del feature
            zeros = torch.zeros(4)
            yield zeros.data.clone()


with torch.no_grad():
    features = [model(batch) for _ in range(6)]
print("dead", [zeros.sum().item() for zeros in torch.utils.data.DataLoader(Dead(features), batch_size=None, num_workers=1)])
kept = None
for step in range(4):
    out = model(batch)
    loss = out[:, 1:].pow(2).mean() + (out[:, 0] - other(batch)[:, 0]).pow(2).mean()
    if kept is not None:
        loss = loss + (out[:, 0] - kept).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept = copy.deepcopy(model(batch)[:, 0].detach())
    print(step, f"{loss.item():.6f}", number(kept))
