"""Gradients through a normalisation over the batch that are themselves differentiated: gradient penalties, inner steps, Hessian-vector products. And what is
left of its graph after a backward."""
import torch
from torch import nn
from torch.nn import functional

from footprint import allocated

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
images, targets, pictures = torch.randn(23, 6), torch.randn(23, 3), torch.randn(13, 2, 5, 5)


def show(name, *tensors):
    for tensor in tensors:
        if tensor is not None:
            weights = torch.arange(1.0, tensor.numel() + 1)
            print(f"{name} {(tensor.detach().reshape(-1) * weights).sum().item():.7f}")


def penalty(affine):
    critic = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8, affine=affine), nn.Tanh(), nn.Linear(8, 8), nn.BatchNorm1d(8, affine=affine), nn.Softplus(),
                           nn.Linear(8, 1))
    points = images.clone().requires_grad_()
    scores = critic(points)
    gradient, = torch.autograd.grad(scores.sum(), points, create_graph=True)
    loss = ((gradient.norm(2, dim=1) - 1) ** 2).mean() + scores.mean()
    loss.backward()
    show("penalty", gradient, loss, *[p.grad for p in critic.parameters()], critic[1].running_mean, critic[1].running_var)


def inner_steps():
    modules = [nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)]
    slow = [p for module in modules for p in module.parameters()]

    def loss_of(fast, rows):
        hidden = functional.batch_norm(functional.linear(images[rows], fast[0], fast[1]), None, None, fast[2], fast[3], training=True)
        return functional.mse_loss(functional.linear(torch.tanh(hidden), fast[4], fast[5]), targets[rows])

    fast = slow
    for _ in range(2):
        loss = loss_of(fast, slice(None))
        gradients = torch.autograd.grad(loss, fast, create_graph=True)
        show("inner", loss, *gradients)
        fast = [weight - 0.3 * gradient for weight, gradient in zip(fast, gradients)]
    loss = loss_of(fast, slice(3, 20))
    loss.backward()
    show("outer", loss, *[p.grad for p in slow])


def hessian_vector():
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Conv2d(4, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3, 1))
    weights = list(network.parameters())
    gradients = torch.autograd.grad(network(pictures).pow(2).mean(), weights, create_graph=True)
    product = sum((gradient * torch.randn(gradient.shape)).sum() for gradient in gradients)
    show("vector", *gradients, *torch.autograd.grad(product, weights, allow_unused=True))


def of_one(which):
    """Of the weight, or of the bias, alone."""
    layer, norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
    gradient, = torch.autograd.grad(norm(layer(images)).sin().sum(), getattr(norm, which), create_graph=True)
    gradient.pow(2).sum().backward()
    show(which, gradient, layer.weight.grad, norm.weight.grad, norm.bias.grad)


def frozen():
    layer, norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
    norm.weight.requires_grad_(False)
    gradient, = torch.autograd.grad(norm(layer(images)).sin().pow(2).sum(), layer.weight, create_graph=True)
    gradient.pow(2).sum().backward()
    show("frozen", gradient, layer.weight.grad, norm.bias.grad)


def backward_twice():
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    gradients = torch.autograd.grad(functional.mse_loss(network(images), targets), list(network.parameters()), create_graph=True)
    functional.mse_loss(network(images), targets).backward()  # one that is not, in between
    sum(gradient.pow(2).sum() for gradient in gradients).backward()
    show("twice", *[p.grad for p in network.parameters()])


def hooked():
    """Hooks on what is normalised change the gradient that flows on."""
    layer, norm = nn.Linear(6, 8), nn.BatchNorm1d(8)
    normal = norm(layer(images))
    normal.register_hook(lambda g: g * g + 2 * g)
    normal.register_hook(lambda g: g.clamp(-0.5, 0.5))
    gradient, = torch.autograd.grad((normal.tanh() * normal).sum(), layer.weight, create_graph=True)
    gradient.pow(2).sum().backward()
    show("hooked", gradient, layer.weight.grad, norm.weight.grad, norm.bias.grad)


def kept_losses(affine):
    """The loss of each step keeps its graph alive, in which nothing of the rows is left after the backward."""
    network = nn.Sequential(nn.Conv2d(4, 16, 3), nn.BatchNorm2d(16, affine=affine), nn.ReLU(), nn.Conv2d(16, 1, 3))
    rows = torch.randn(32, 4, 34, 34)
    losses = []
    for step in range(40):
        losses.append(network(rows).pow(2).mean())
        losses[-1].backward()
        if step == 3:
            before = allocated()
    growth, normalised = (allocated() - before) / 36, 32 * 16 * 32 * 32 * 8
    print("kept losses", "hold no rows" if growth < normalised / 8 else f"hold {growth} bytes each")  # 8: half of those of a rank of four
    show("kept", sum(losses), *[p.grad for p in network.parameters()])


def graph_kept():
    """As long as it is asked for, and not longer."""
    network = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    loss = functional.mse_loss(network(images), targets)
    loss.backward(retain_graph=True)
    first, = torch.autograd.grad(loss, network[0].weight, retain_graph=True)
    loss.backward()
    show("again", first, *[p.grad for p in network.parameters()])
    for again in (loss.backward, lambda: torch.autograd.grad(loss, network[0].weight, create_graph=True), lambda: loss.backward(retain_graph=True)):
        try:
            again()
        except RuntimeError as error:
            print("again", str(error)[:60])


penalty(True)
penalty(False)
inner_steps()
hessian_vector()
of_one("weight")
of_one("bias")
frozen()
backward_twice()
hooked()
kept_losses(True)
kept_losses(False)
graph_kept()
