"""Code that a backward calls back and that looks at more than its gradient: at features of the batch, at .grad, at models that it trains there and then."""
import os

import torch

torch.manual_seed(0)
first, second, batch = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5), torch.randn(13, 6)
statistic = first(batch).detach()[:, :5].mean(0)


def show(name, *tensors):
    print(name, *(f"{tuple(t.shape)} {t.double().sum().item():.5f} {t.double().norm().item():.5f}" for t in tensors))


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * statistic


def table():
    return torch.nn.Parameter(torch.arange(1.0, 6.0))


# in a backward through parameters alone
hooked = table()
hooked.register_hook(lambda gradient: show("statistic in a hook", statistic) or gradient * statistic)
(hooked * hooked).sum().backward()
custom, mapped, layer = table(), table(), torch.nn.Linear(5, 5)
Scaled.apply(custom).sum().backward()
layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * statistic,))
layer(mapped * 1).sum().backward()
show("hook, function, module", hooked.grad, custom.grad, mapped.grad)
kept = table()
if hasattr(torch.autograd.graph, "saved_tensors_hooks"):
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor * statistic):
        penalty = (kept * kept).sum()
    penalty.backward(retain_graph=True)
    (penalty + first(batch).mean()).backward()
    show("unpacked", kept.grad)


def train_meanwhile(gradient):
    with torch.enable_grad():
        first(batch).pow(2).mean().backward()


nested = table()
nested.register_hook(train_meanwhile)
(nested * nested).sum().backward()
show("a backward in a hook", nested.grad, first.weight.grad)
if hasattr(nested, "register_post_accumulate_grad_hook"):
    late = table()
    late.register_post_accumulate_grad_hook(lambda leaf: show("accumulated", leaf.grad * statistic, statistic))
    (late * late).sum().backward()

# in a backward through rows
first.zero_grad(set_to_none=True)
second.register_full_backward_hook(lambda module, inputs, outputs: show("module sees", module.weight.grad, module.bias.grad))
for step in range(3):
    hidden = first(batch).tanh()
    hidden.register_hook(lambda gradient: show("hook sees", second.bias.grad))
    second(hidden).pow(2).mean().backward()
show("in the end", second.bias.grad, first.weight.grad)

optimizer = torch.optim.SGD(second.parameters(), 0.1, momentum=0.9)
for step in range(3):
    first.zero_grad(set_to_none=True)
    optimizer.zero_grad(set_to_none=True)
    hidden = first(batch).tanh()
    hidden.register_hook(lambda gradient: optimizer.step())
    second(hidden).pow(2).mean().backward()
    show("trained in a hook", second.weight, second.bias, first.weight.grad)
    with torch.no_grad():
        first.weight -= 0.1 * first.weight.grad


def of_a_child():
    """Its parameter has a hook, and it is forked in the midst of a backward."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            halved.grad = None
            with torch.enable_grad():
                (halved * halved).sum().backward()
            os.write(writing, ("%.5f" % halved.grad.sum().item()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        print("of a child", pipe.read())


halved = table()
halved.register_hook(lambda gradient: gradient / 2)
(halved * halved).sum().backward()
hidden = first(batch).tanh()
hidden.register_hook(lambda gradient: of_a_child())
second(hidden).pow(2).mean().backward()
show("with a child", halved.grad, first.weight.grad)
