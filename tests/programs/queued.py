"""Functions that the engine calls when a backward is through, before backward() returns: the gradients that they see are whole."""
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
engine = torch.autograd.Variable._execution_engine
x = torch.randn(14, 6)
seen = {}


def again():
    print("later: %.5f" % model[0].bias.grad.abs().sum().item())


def at_end():
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
    print("norm %.5f, rows %d, hidden %.5f" % (norm, len(seen["hidden"]), seen["hidden"].grad.abs().sum().item()))
    print("mean of what was computed %.5f" % seen["hidden"].detach().mean().item())
    engine.queue_callback(again)


def hook(gradient):
    engine.queue_callback(at_end)
    return gradient


model[0].weight.register_hook(hook)
for step in range(3):
    hidden = model[1](model[0](x))
    hidden.retain_grad()
    seen["hidden"] = hidden
    loss = model[2](hidden).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step %d %.5f" % (step, loss.item()))


def refuse():
    raise ValueError("not this one")


def hook_that_refuses(gradient):
    engine.queue_callback(refuse)


model[2].bias.register_hook(hook_that_refuses)
try:
    model(x).sum().backward()
except ValueError as error:
    print(error)
print(" ".join("%.5f" % parameter.abs().sum().item() for parameter in model.parameters()))

# a backward of a parameter alone, whose retained gradient is whole
weight = torch.nn.Parameter(torch.arange(1.0, 5.0))
doubled = weight * 2
penalty = doubled.square().sum()
doubled.retain_grad()
doubled.register_hook(lambda gradient: engine.queue_callback(lambda: print("alone: %.5f" % doubled.grad.sum().item())))
penalty.backward()
print("alone, later: %.5f %.5f" % (doubled.grad.sum().item(), weight.grad.sum().item()))
