"""Gradients that the program looks at, holds views of, and sets itself, while later backwards add to them: of codes that a network has made, of parameters."""
import threading

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
encoder, decoder = nn.Linear(6, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 6))
images = torch.randn(9, 6)


def codes():
    return encoder(images).detach().requires_grad_()


def watched_and_held():
    z = codes()
    optimizer = torch.optim.SGD([z], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(decoder(z), images)
        loss.backward()
        row = z.grad[0]
        z.abs().mean().backward()
        z.grad[3] = 0
        optimizer.step()
        print("row", loss.item(), row.norm().item(), z.grad.sum().item(), z.norm().item())


def zeroed_in_place():
    z = codes()
    optimizer = torch.optim.SGD([z], lr=0.5)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        F.mse_loss(decoder(z), images).backward()
        norms = [row.norm().item() for row in z.grad]
        total = nn.utils.clip_grad_norm_([z], 0.01)
        optimizer.step()
        print("rows", total.item(), norms[0], norms[-1], z.norm().item())


def as_an_array():
    z = codes()
    decoder(z).pow(2).mean().backward()
    array, column = z.grad.numpy(), z.grad.t()[1]
    before = array.sum()
    decoder(z).abs().mean().backward()
    print("array", before, array.sum(), column.sum().item(), z.grad.sum().item(), z.grad.std().item(), z.grad.numpy().sum())


def set_by_the_program():
    z = codes()
    z.grad = torch.zeros_like(z)
    first = z.grad[0]
    decoder(z).pow(2).sum().backward()
    print("zeros", first.sum().item(), z.grad.std().item())
    for held in encoder(images).detach().mean(0), encoder(images).detach():
        parameter = nn.Parameter(torch.zeros_like(held))
        parameter.grad = held
        view = held[1:]
        (encoder(images) * parameter + parameter).pow(2).sum().backward()
        print("held", held.sum().item(), view.sum().item(), parameter.grad.sum().item(), parameter.grad.std().item())
        (encoder(images) * parameter).sum().backward()
        print("held", held.sum().item(), view.sum().item(), parameter.grad.sum().item())
        held.zero_()
        print("cleared", parameter.grad.abs().sum().item(), view.abs().sum().item())


def written_after_a_view():
    with torch.no_grad():
        for write in (lambda h: h.index_fill_(0, torch.tensor([1, 5]), 2.0), lambda h: h.masked_scatter_(h > 0, torch.ones(36)),
                      lambda h: h.cumsum_(0), lambda h: h.index_put_((torch.tensor([2, 3]),), torch.ones(2, 4))):
            h = encoder(images)
            first = h[0]
            h.mul_(2)
            h[h > 0] *= -1
            write(h)
            print("write", h.sum().item(), first.sum().item())


def expanded_and_caught():
    """Adding to an expanded gradient throws; what was there stays."""
    for expanded in (lambda p: encoder(images).detach().sum().expand_as(p), lambda p: encoder(images).detach()[:, :1].mean(0).expand_as(p),
                     lambda p: torch.tensor(2.).expand_as(p)):
        parameter = nn.Parameter(torch.ones(4))
        parameter.grad = expanded(parameter)
        try:
            (encoder(images) * parameter).sum().backward()
        except RuntimeError as error:
            print("caught", str(error).split(":")[0])
        print("expanded", parameter.grad.stride(), parameter.grad.tolist())
        parameter.grad = parameter.grad.clone()
        (encoder(images) * parameter).sum().backward()
        print("cloned", parameter.grad.norm().item())


def expanded_and_held():
    weight, bias = nn.Parameter(torch.ones(3, 4)), nn.Parameter(torch.ones(9, 4, 3))
    total, features = encoder(images).detach().sum(), encoder(images).detach()
    weight.grad, bias.grad = total.expand_as(weight), features[..., None].expand_as(bias)
    held = weight.grad
    try:
        ((encoder(images) * weight[0]).sum() + bias.sum()).backward()
    except RuntimeError:
        print("caught")
    total.mul_(2)
    features[3] = 0
    print("held", held.sum().item(), weight.grad.sum().item(), weight.grad.stride(), bias.grad.stride(), bias.grad[3].abs().sum().item())
    total.zero_()
    print("cleared", held.sum().item(), weight.grad.sum().item(), bias.grad[2].sum().item(), bias.grad.sum().item())


def in_order():
    for frozen in [[], ["1.bias"], ["1.weight"], ["1.weight", "1.bias"]]:
        net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Linear(5, 3))
        for name, parameter in net.named_parameters():
            parameter.requires_grad_(name not in frozen)
            if parameter.requires_grad:
                parameter.register_hook(lambda gradient, name=name: print("reaches", name))
        net(torch.randn(23, 4)).pow(2).mean().backward()


watched_and_held()
zeroed_in_place()
as_an_array()
set_by_the_program()
expanded_and_caught()
expanded_and_held()
thread = threading.Thread(target=expanded_and_held)
thread.start()
thread.join()
written_after_a_view()
in_order()
