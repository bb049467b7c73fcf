"""A TorchDispatchMode sees every operator with the shapes of one process; what it counts of a step is what one process has. Prints what it sees."""
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(5)
batch = torch.randn(13, 8)
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, values=(), named=None):
        print(function, [tuple(value.shape) for value in values if isinstance(value, torch.Tensor)])
        return function(*values, **(named or {}))


class Holding(TorchDispatchMode):
    """Computes with a tensor of the program's that no operator was given."""

    def __init__(self, held):
        super().__init__()
        self.held = held

    def __torch_dispatch__(self, function, types, values=(), named=None):
        result = function(*values, **(named or {}))
        print("held", tuple(self.held.shape), f"{(self.held * 2).sum(0).norm().item():.5f} {(self.held + result).norm().item():.5f}")
        return result


for step in range(3):
    optimizer.zero_grad()
    hidden = model[0](batch)
    if step == 0:
        with Seen():
            loss = model(batch).pow(2).mean()
            loss.backward()
    elif step == 1:
        with Seen():
            loss = model[2](hidden.relu() + hidden[:, :6]).sum(0).pow(2).mean()
    else:
        loss = model(batch).mean()
    if step:
        loss.backward()
    hidden = model[0](batch).detach()
    with Seen():
        hidden.relu_()
    with Holding(model[0](batch).detach()):
        hidden * 2
    fake = FakeTensorMode().from_tensor(model[0](batch).detach())
    print(tuple(fake.shape), tuple((fake @ fake.t()).shape))
    print(f"{step} {hidden.sum().item():.5f} {loss.item():.5f} {model[0].weight.grad.norm().item():.5f}")
    optimizer.step()
