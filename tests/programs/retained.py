"""Gradients that retain_grad() keeps: of what was computed from parameters alone, of views of parameters, of divided rows, of whole values."""
import torch
from torch.nn import functional

torch.manual_seed(1)
weight = torch.nn.Parameter(torch.randn(6, 3))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(3):
    images, targets = torch.randn(23, 6), torch.arange(23) % 3
    doubled, turned, alone = weight * 2, weight.t(), weight.pow(2).sum()
    scores = images @ weight + images @ doubled + functional.linear(images, turned)
    products = scores @ scores.t()
    loss = functional.cross_entropy(scores, targets) + products.mean() + 0.1 * alone
    kept = {"doubled": doubled, "turned": turned, "alone": alone, "scores": scores, "products": products, "loss": loss}
    for tensor in kept.values():
        tensor.retain_grad()
    optimizer.zero_grad()
    loss.backward()
    for name, tensor in kept.items():
        print(f"step {step} {name} {tuple(tensor.grad.shape)} {tensor.grad.norm().item():.4f} {tensor.grad.reshape(-1)[-1].item():.4f}")
    print(f"step {step} weight {weight.grad.norm().item():.4f}")
    optimizer.step()

# seen while the backward runs: by a hook of what comes after, by a function of a backward within one
first, second, other, images = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3), torch.nn.Linear(6, 8), torch.randn(23, 6)


def show(name, tensor):
    print(f"{name} {tuple(tensor.grad.shape)} {tensor.grad.norm().item():.4f} {tensor.grad.reshape(-1)[-1].item():.4f}")


def nested(gradient):
    with torch.enable_grad():
        inner = other(images)
        inner.retain_grad()
        for _ in range(2):
            second(inner).exp().mean().backward(retain_graph=True)
            show("nested", inner)


for step in range(2):
    hidden, tied = first(images), second.weight * 2
    hidden.retain_grad()
    tied.retain_grad()
    handles = [first.weight.register_hook(lambda gradient: show("meanwhile", hidden) or show("tied", tied))]
    if step:
        handles.append(first.bias.register_hook(nested))
    functional.linear(torch.tanh(hidden), tied).pow(2).mean().backward()
    show("at the end", hidden)
    print("first", " ".join(f"{parameter.grad.norm().item():.4f}" for parameter in first.parameters()))
    for handle in handles:
        handle.remove()
