"""Gradients that are computed in the loss: torch.autograd.grad, with create_graph too (WGAN-GP, R1, Hessian-vector products, inner steps)."""
import torch
from torch.nn import functional

torch.manual_seed(1)
generator = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 6))
critic = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Softplus(), torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
weights = list(critic.parameters())
images, noise, targets = torch.randn(23, 6), torch.randn(23, 4), torch.randn(23, 1)


def show(name, *tensors):
    for tensor in tensors:
        print(f"{name} {tuple(tensor.shape)} {tensor.norm().item():.5f} {tensor.reshape(-1)[-1].item():.5f}")


def penalty(points):
    """Of the interpolated points: a leaf, or what the generator computed."""
    scores = critic(points)
    gradient = torch.autograd.grad(scores, points, torch.ones_like(scores), create_graph=True, retain_graph=True, only_inputs=True)[0]
    show("gradient", gradient.detach())
    return ((gradient.view(gradient.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


def wgan_leaf():
    fake = generator(noise).detach()
    mixed = (torch.rand(23, 1) * (images - fake) + fake).requires_grad_()
    return critic(fake).mean() - critic(images).mean() + 10 * penalty(mixed)


def wgan_graph():
    return penalty(0.5 * images + 0.5 * generator(noise)) - critic(images).mean()


def r1():
    real = images.clone().requires_grad_()
    gradient, = torch.autograd.grad(critic(real).sum(), real, create_graph=True)
    return gradient.pow(2).reshape(23, -1).sum(1).mean()


def hessian_vector():
    loss = functional.mse_loss(critic(images), targets)
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    show("first", *(g.detach() for g in gradients))
    product = sum((g * torch.ones_like(g)).sum() for g in gradients)
    show("product", *torch.autograd.grad(product, weights, retain_graph=True, allow_unused=True)[:3])
    return product + loss


def inner_step():
    gradients = torch.autograd.grad(functional.mse_loss(critic(images), targets), weights, create_graph=True)
    fast = [w - 0.1 * g for w, g in zip(weights, gradients)]
    hidden = torch.tanh(functional.linear(functional.softplus(functional.linear(images, fast[0], fast[1])), fast[2], fast[3]))
    return functional.mse_loss(functional.linear(hidden, fast[4], fast[5]), targets)


def of_rows():
    """No graph: what a layer computed, one of several results of an operator, a number."""
    hidden = critic[0](images)
    left, right = hidden.chunk(2, 1)
    total = left.sum()
    loss = (left * right).sum() + total * 2 + total.pow(2)
    show("rows", *torch.autograd.grad(loss, [right, left, total, hidden], retain_graph=True))
    several = torch.autograd.grad([hidden.sum(), (hidden**2).mean()], [weights[0]], [torch.tensor(2.0), torch.tensor(3.0)], retain_graph=True)
    show("several", *several)
    return loss * 0.01


def backward_twice():
    loss = functional.mse_loss(critic(images), targets)
    loss.backward(create_graph=True)
    product = sum((w.grad**2).sum() for w in weights)
    for w in weights:
        w.grad = None
    return product


def classes():
    """Means over the targets that count, of which some ranks have none: the gradient of the loss depends on the loss."""
    points = images.clone().requires_grad_()
    labels = torch.arange(23) % 8
    few = torch.where(torch.arange(23) < 7, labels, -100)
    scores = critic[:3](points)
    weighted = functional.cross_entropy(scores, labels, torch.arange(8.0), label_smoothing=0.1)
    loss = functional.cross_entropy(scores, few) ** 2 + functional.cross_entropy(scores, labels).exp() + weighted**2
    gradient, = torch.autograd.grad(loss, points, create_graph=True)
    show("gradient", gradient.detach())
    return loss * 0.1 + gradient.pow(2).sum()


for case in [wgan_leaf, wgan_graph, r1, hessian_vector, inner_step, of_rows, backward_twice, classes]:
    loss = case()
    print(f"{case.__name__} {loss.item():.5f}")
    loss.backward()
    with torch.no_grad():
        for parameter in [*generator.parameters(), *weights]:
            if parameter.grad is not None:
                show("parameter", parameter.grad)
                parameter -= 0.05 * parameter.grad
            parameter.grad = None

for _ in range(2):  # as optimizers that look at the curvature do; a gradient with a history is then detached where it is
    loss = backward_twice()
    loss.backward(create_graph=True)
    for parameter in [*generator.parameters(), *weights]:
        if parameter.grad is not None:
            show("with graph", parameter.grad)
            parameter.grad.detach_().zero_()


class Penalised(torch.autograd.Function):
    """Its backward computes gradients that are to be differentiated again, or are not, whatever the backward does that it is a part of."""
    has_graph = True

    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return values * 2

    @staticmethod
    def backward(context, gradient):
        values, = context.saved_tensors
        with torch.enable_grad():
            critic(values.detach()).pow(2).mean().backward(create_graph=Penalised.has_graph)
        show("inside", *(w.grad.detach() for w in weights))
        return gradient * 2


layer = torch.nn.Linear(6, 6)
for Penalised.has_graph in True, False:
    for outer in False, True:
        Penalised.apply(layer(images)).tanh().mean().backward(create_graph=outer)
        print("to be differentiated", *(w.grad.requires_grad for w in weights), layer.weight.grad.requires_grad)
        if Penalised.has_graph:
            product = sum((w.grad**2).sum() for w in weights)
            product.backward()
            show("of the penalty", product.detach())
        show("with the penalty", *(w.grad.detach() for w in weights), layer.weight.grad.detach())
        for parameter in [*layer.parameters(), *weights]:
            parameter.grad = None
