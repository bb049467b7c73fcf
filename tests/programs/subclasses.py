"""Tensors of Python with a __torch_dispatch__ of their own, as data beside divided rows, holding divided rows, and as a parameter. PyTorch calls it below our
keys."""
import torch

from wrapper import Wrapper

torch.manual_seed(1)
batch = torch.randn(13, 8)
other = torch.nn.Linear(8, 6)
other.weight = torch.nn.Parameter(Wrapper(other.weight.detach()))
loss = other(batch).pow(2).mean()
loss.backward()
print(f"{loss.inner.item():.5f} {other.weight.grad.inner.norm().item():.5f}")
model = torch.nn.Linear(8, 6)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = Wrapper(batch[:, :6])
for step in range(3):
    hidden = model(batch)
    seen = [(data + hidden).sum(0), (hidden * data).pow(2).mean(), (hidden.detach() * 2 + data).sum(), torch.softmax(data - hidden.detach(), 0)]
    optimizer.zero_grad()
    loss = hidden.pow(2).mean()
    loss.backward()
    optimizer.step()
    print(step, [f"{tuple(value.shape)} {value.inner.sum().item():.5f}" for value in seen], f"{loss.item():.5f} {model.weight.grad.norm().item():.5f}")
    held = Wrapper(hidden.detach().clone())
    seen = [held * 2, held.sum(0), (held - held.mean(0)).pow(2).sum(1), held + hidden.detach(), held + data, held.mul_(3), held[2:9], held]
    print(step, "held", [f"{tuple(value.shape)} {tuple(value.inner.shape)} {value.inner.norm().item():.5f}" for value in seen])
    leaf = Wrapper(hidden.detach()).requires_grad_()
    (leaf * 2).tanh().pow(2).sum().backward()
    print(step, "leaf", tuple(leaf.grad.shape), f"{leaf.grad.inner.norm().item():.5f}")
