"""Forward-mode derivatives: tangents of data and of parameters, of the outputs and of the loss, beside tensors that were divided before."""
import torch
from torch.autograd import forward_ad
from torch.nn import functional

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))


def show(name, *tensors):
    print(name, *[f"{tuple(t.shape)} {t.double().norm().item():.5f} {t.double().sum().item():.5f}" for t in tensors])


def tangent(dual):
    return forward_ad.unpack_dual(dual).tangent


for step in range(2):
    scores = model(images)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(images, torch.ones_like(images))
        out = model(dual)
        show("outputs", tangent(out), tangent(out.mean(0)), tangent(functional.cross_entropy(out, targets)))
        mixed = forward_ad.make_dual(scores, targets[:, None].double().float().expand(23, 3))
        show("scores", tangent((mixed * scores).sum(0)), tangent(mixed.exp()), scores.mean(0))
    with forward_ad.dual_level():
        weight, bias = model[2].weight, model[2].bias
        direction = torch.randn_like(weight)
        out = functional.linear(torch.tanh(model[0](images)), forward_ad.make_dual(weight, direction), bias)
        slope = tangent(functional.cross_entropy(out, targets))
    show("slope", slope)
    weight.data -= 0.1 * slope.detach() * direction
    model.zero_grad()
    functional.cross_entropy(model(images), targets).backward()
    show("gradients", *[p.grad for p in model.parameters()])
