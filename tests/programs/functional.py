"""torch.func on a living model: gradients and per-sample gradients as functions, jacobians, a MAML step. Leaves that live for a moment only."""
import torch
from torch.func import functional_call, grad, jacrev, jvp, vjp, vmap
from torch.nn import functional

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def show(name, tensor):
    values = tensor.detach().double()
    print(f"{name} {tuple(tensor.shape)} {values.norm().item():.5f} {values.sum().item():.5f}")


def loss_of(parameters, x, y):
    return functional.cross_entropy(functional_call(model, parameters, (x,)), y)


for step in range(2):
    living = dict(model.named_parameters())
    for name, gradient in grad(loss_of)(living, images, targets).items():
        living[name].grad = gradient
    optimizer.step()
    for name, parameter in model.named_parameters():
        show(name, parameter)

fixed = {name: parameter.detach() for name, parameter in model.named_parameters()}
each = vmap(grad(lambda p, x, y: loss_of(p, x[None], y[None])), (None, 0, 0))(fixed, images, targets)
for name, gradients in each.items():
    show(name, gradients)
mapped = vmap(model)(images)
optimizer.zero_grad()
functional.cross_entropy(mapped, targets).backward()
show("mapped", model[0].weight.grad)

show("jacobian", jacrev(lambda x: model(x).sum(0))(images))
show("forward", jvp(model, (images,), (torch.ones_like(images),))[1])
outputs, back = vjp(model, images)
show("back", back(torch.ones_like(outputs))[0])

for task in range(3):
    fast = dict(model.named_parameters())
    gradients = torch.autograd.grad(loss_of(fast, images, targets), tuple(fast.values()), create_graph=True)
    fast = {name: p - 0.1 * g for (name, p), g in zip(fast.items(), gradients)}
    optimizer.zero_grad()
    loss_of(fast, images.flip(1), targets).backward()
    optimizer.step()
    show("maml", model[0].weight)
