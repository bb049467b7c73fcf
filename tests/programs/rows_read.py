"""Rows of divided tensors that are read one by one, and what is written in between, in every way: each read shows what one process reads."""
import torch

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
model, images = torch.nn.Linear(6, 4), torch.randn(16, 6)


def fresh():
    return (model(images) * 1).detach().clone()


def set_data(d):
    d.data = d * 2


def rows_of(d):
    for number, row in enumerate(d.unbind(0)):
        row.add_(number)


WRITES = dict(
    unsqueeze=lambda d: d.unsqueeze_(0), squeeze=lambda d: d.unsqueeze_(1).squeeze_(1), transpose=lambda d: d.transpose_(0, 1), swap=lambda d: d.swapdims_(0, 1),
    resize=lambda d: d.resize_as_(d), detach=lambda d: d.detach_(), requires=lambda d: d.requires_grad_(), set_data=set_data, of_data=lambda d: d.data.mul_(3),
    numpy=lambda d: d.numpy().__setitem__(1, 4.0), lists=lambda d: torch._foreach_add_([d], 1.0), out=lambda d: torch.mul(d, 2, out=d),
    row=lambda d: d.__setitem__(1, 7.0), mask=lambda d: d.masked_fill_(d > 0, 9.0), view=lambda d: d.view(4, 4, 4).mul_(2),
    flat=lambda d: d.flatten().__setitem__(5, 3.0), rows=rows_of, chunk=lambda d: d.chunk(4)[0].zero_(), copy=lambda d: d[1].copy_(d[2]),
    scatter=lambda d: d.scatter_(0, torch.ones(1, 4, dtype=torch.long), 2.0), dropout=lambda d: torch.nn.functional.dropout(d, 0.5, inplace=True),
    renorm=lambda d: d.renorm_(2, 0, 0.1), whole=lambda d: d.copy_(torch.ones(16, 4)), replaced=lambda d: d.set_(torch.ones(16, 4)))

for name, write in WRITES.items():
    d = fresh()
    before = d[1].sum().item()
    write(d)
    after = d[1 if len(d) > 1 else 0].sum().item()
    print(name, f"{before:.6f} {after:.6f} {d.sum():.6f} {d[0].sum():.6f}")

d = fresh()
old = d[1]
d.data = d * 2
new = d[1]
for write in (lambda: None, lambda: d.mul_(3), lambda: old.add_(1), lambda: new.add_(1)):
    write()
    print("beside views", f"{old.sum():.6f} {new.sum():.6f} {d[1].sum():.6f} {d.sum():.6f}")

scores, labels = model(images), torch.randint(0, 4, (16,))
print("right", sum(scores[i].argmax().item() == labels[i].item() for i in range(16)), f"{sum(scores[i][j].item() for i in range(16) for j in range(4)):.6f}")
loss = sum((scores[i] - scores[j]).pow(2).sum() for i in range(8) for j in range(i))
loss.backward()
print("loss", f"{loss.item():.6f} {model.weight.grad.norm():.6f}")

whole_numbers = (scores.detach().abs() * 1000).view(16, 4)
for name in ("uint16", "uint32", "uint64"):  # of torch 2.3: without arithmetic here, gathered as bytes
    values = whole_numbers.to(getattr(torch, name, torch.int64))
    print("types", values[3:6].tolist(), int(values.numpy().sum()), tuple(values.stride()))
narrow = scores.detach().to(getattr(torch, "float8_e4m3fn", torch.float16))
print("float8", f"{narrow[2:9].clone().float().sum():.4f}", narrow.float().tolist()[1])
