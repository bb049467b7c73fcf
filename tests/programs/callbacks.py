"""Code of a program that autograd calls back: hooks on tensors and parameters, custom functions, checkpoints. What it is shown is printed."""
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
parameters = [*first.parameters(), *second.parameters()]


def show(name, tensor):
    print(f"{name} {tuple(tensor.shape)} {tensor.double().norm().item():.5f} {tensor.reshape(-1)[-1].item():.5f}")


def showing(name):
    return lambda gradient: show(name, gradient)


class Clipped(torch.autograd.Function):
    """The gradient is scaled to norm one over the batch and clipped: not linear in a rank's share."""

    @staticmethod
    def forward(ctx, x, weight):
        show("forward", x)
        ctx.save_for_backward(x, weight)
        ctx.mark = x.abs().max()
        return x.mm(weight).relu()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        show("backward", gradient)
        show("kept", x)
        gradient = gradient / gradient.norm() * (x.mm(weight) > 0)
        gradient = gradient.clamp(-0.05, 0.05) * ctx.mark
        return gradient.mm(weight.t()), x.t().mm(gradient)


class Loss(torch.autograd.Function):
    """Computes its gradient in its forward, as fused losses do."""

    @staticmethod
    def forward(ctx, scores, targets):
        error = scores.softmax(1)
        error[torch.arange(len(targets)), targets] -= 1
        ctx.save_for_backward(error / len(targets))
        return functional.cross_entropy(scores, targets)

    @staticmethod
    def backward(ctx, gradient):
        show("loss", gradient)
        return gradient * ctx.saved_tensors[0], None


class Round(torch.autograd.Function):
    """Of a parameter alone: straight through, where the gradient is not too large."""

    @staticmethod
    def forward(ctx, weight):
        return (weight * 8).round() / 8

    @staticmethod
    def backward(ctx, gradient):
        show("round", gradient)
        return gradient.clamp(-0.02, 0.02)


def plain():
    return second(first(images).relu())


def hooks():
    hidden = first(images)
    hidden.register_hook(showing("hidden"))
    hidden.register_hook(lambda gradient: gradient / gradient.norm())
    doubled = second.weight * 2
    doubled.register_hook(showing("doubled"))
    handle = second.bias.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01))
    handles.append(handle)
    return functional.linear(hidden.relu(), doubled, second.bias)


def custom():
    return functional.linear(Clipped.apply(first(images), torch.eye(8)), Round.apply(second.weight))


def alone():
    return second(Clipped.apply(images, first.weight.t()))


def modules():
    def hook(module, inputs, outputs):
        show("module", outputs[0])
        return tuple(None if x is None else show("into", x) or x / x.norm() for x in inputs)

    for layer in [first, second]:
        handles.append(layer.register_full_backward_hook(hook))
    return second(first(images).relu())


def kept_on_host():
    with torch.autograd.graph.save_on_cpu():
        return second(torch.tanh(first(images)) * 2)


def counted():
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or len(kept) - 1, lambda index: kept[index] + 0):
        return second(first(images).sigmoid().pow(2))


def block(x):
    return functional.dropout(first(x).tanh(), 0.3)


def checkpoint_old():
    x = images.clone().requires_grad_()
    return second(checkpoint(block, x, use_reentrant=True))


def checkpoint_new():
    return second(checkpoint(block, images, use_reentrant=False))


def checkpoint_inside():
    hidden = first(images)
    inner = checkpoint(lambda h: torch.tanh(h @ first.weight @ first.weight.t()), hidden, use_reentrant=True)
    return second(checkpoint(lambda a, b: (a * b).relu(), inner, hidden, use_reentrant=False))


handles = []
for forward in [plain, hooks, custom, alone, modules, kept_on_host, counted, checkpoint_old, checkpoint_new, checkpoint_inside]:
    for loss_of in [functional.cross_entropy, Loss.apply]:
        loss = loss_of(forward(), targets)
        print(f"{forward.__name__} {loss.item():.5f}")
        loss.backward()
        while handles:
            handles.pop().remove()
        with torch.no_grad():
            for parameter in parameters:
                if parameter.grad is not None:
                    show("parameter", parameter.grad)
                    parameter -= 0.1 * parameter.grad
                parameter.grad = None


class Kept:
    """What a hook holds; as it ends it puts a hook on another tensor."""
    living = 0

    def __init__(self):
        Kept.living += 1

    def __del__(self):
        Kept.living -= 1
        torch.ones(2, requires_grad=True).register_hook(lambda gradient: None)

    def __call__(self, gradient):
        return gradient / gradient.norm()


living = []
for _ in range(100):
    hidden = first(images)
    hidden.register_hook(Kept())
    second(hidden).pow(2).mean().backward()
    living.append(Kept.living)
print("hooks living", living[:4], max(living))
show("of hooks that end", first.weight.grad)
