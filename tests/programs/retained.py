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

# when the engine itself has ended the backward, also one within another; when a backward within another finds a gradient that the program has set there
def broken(gradient):
    written, values = torch.tanh(first(images)), torch.tanh(first(images))
    written.mul_(2)
    hidden, tied = second(written), second.weight * 2
    hidden.retain_grad()
    tied.retain_grad()
    try:
        (hidden.pow(2).sum() + functional.linear(written, tied).pow(2).sum() + values.sum()).backward()
    except RuntimeError as error:
        print("caught", "modified by an inplace operation" in str(error))
    show("until then", hidden)
    show("until then", tied)
    return hidden, tied


def given(gradient):
    with torch.enable_grad():
        tied, inner = other.weight * 2, first(images)
        for tensor in (tied, inner):
            tensor.retain_grad()
            tensor.grad = torch.ones_like(tensor)
        functional.linear(images, tied).mul(torch.tanh(inner)).mean().backward()
        show("onto ones", tied)
        show("onto ones", inner)


for tensor in broken(None):
    show("after it", tensor)
for function in (lambda gradient: torch.enable_grad()(broken)(gradient) and None, given):
    hidden = first(images)
    hidden.retain_grad()
    hidden.register_hook(function)
    hidden.pow(2).mean().backward()
    show("around it", hidden)
