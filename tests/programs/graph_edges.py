"""Places in the graph that outlive their tensors (GradientEdge): gradients asked for there, backwards that begin there. Gradients that are leaves, or the
Reducer's memory."""
import torch
import torch.autograd.graph
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
first, second, images = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5), torch.randn(24, 6)
edge_of = getattr(torch.autograd.graph, "get_gradient_edge", None)


def words(*tensors):
    return " ".join(f"{tuple(tensor.shape)} {tensor.norm().item():.8g}" for tensor in tensors)


def asked_for():
    hidden = first(images)
    edge = edge_of(hidden)
    hidden = torch.tanh(hidden)  # the first one is gone
    loss = second(hidden).pow(2).mean()
    print("gone", words(*torch.autograd.grad(loss, edge, retain_graph=True)))
    print("again", words(*torch.autograd.grad(loss, edge)))
    hidden = first(images)
    edge, _ = edge_of(hidden), hidden.relu_()
    print("in place", words(*torch.autograd.grad(second(hidden).pow(2).mean(), edge)))
    total = first(images).sum(0)
    edge, total = edge_of(total), total * 2
    print("sum", words(*torch.autograd.grad(total.pow(2).sum(), edge)))
    edge = edge_of(first.weight)
    print("parameter", words(*torch.autograd.grad(first(images).pow(2).mean(), edge)))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        return values * 2

    @staticmethod
    def backward(context, gradient):
        return gradient * 2


def made():
    """By the constructor, of nodes whose tensors are there: as they are still, as they are no more, and as others are."""
    from torch.autograd.graph import GradientEdge

    hidden = first(images)
    edge = GradientEdge(hidden.grad_fn, 0)
    hidden = torch.tanh(hidden)
    left, right = (hidden * 2).chunk(2, 1)
    other = GradientEdge(right.grad_fn, 0)._replace(output_nr=right.output_nr)
    custom = Doubled.apply(right * left)
    of_custom = GradientEdge(custom.grad_fn, 0)
    loss = (custom.exp() * left).pow(2).mean() + second(hidden).pow(2).mean()
    del right
    print("made", words(*torch.autograd.grad(loss, [edge, other, of_custom], retain_graph=True)))
    begins = GradientEdge(loss.grad_fn, 0)
    del loss
    try:
        torch.autograd.backward(begins)
    except (AssertionError, AttributeError, TypeError):  # before 2.7
        return
    print("made and begun", words(first.weight.grad, first.bias.grad))
    first.zero_grad()
    second.zero_grad()


def begun():
    def part(index):
        loss = torch.nn.functional.cross_entropy(second(torch.tanh(first(images + index))), torch.arange(24) % 5)
        return edge_of(loss), loss.item()

    edges, losses = zip(*[part(index) for index in range(3)])
    torch.autograd.backward(edges)
    print("begun", *[f"{loss:.8g}" for loss in losses], words(first.weight.grad, second.bias.grad))


def grows():
    """Gradients that are leaves: a function of them is differentiated, and the next backward adds to them."""
    model = torch.nn.Linear(6, 3)
    model(images).pow(2).mean().backward()
    for parameter in model.parameters():
        parameter.grad.requires_grad_()
    sum(parameter.grad.pow(2).sum() for parameter in model.parameters()).backward()
    model(images).abs().mean().backward()
    print("leaf", words(model.weight.grad, model.weight.grad.grad, model.bias.grad), model.weight.grad.is_leaf)


def reduced(is_view):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(6, 3), gradient_as_bucket_view=is_view)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        held = None
        for part in range(3):
            model(images * (part + 1)).pow(2).mean().backward()
            gradients = [parameter.grad for parameter in model.parameters()]
            print("reduced", step, part, words(*gradients), held is None or [one is other for one, other in zip(held, gradients)])
            held = gradients
        optimizer.step()
    wide, data = torch.nn.Linear(6, 3000), images.clone()  # its gradient is summed where it lies
    for part in range(3):
        (wide(data) * (part + 1)).mean().backward()
        held = held if part else [parameter.grad for parameter in wide.parameters()]
        print("beside", words(*held), [one is parameter.grad for one, parameter in zip(held, wide.parameters())])
    features = first(images).detach().requires_grad_()
    for part in range(3):
        (second(features) * (part + 1)).pow(2).mean().backward()
        print("features", words(features.grad))


class Called(torch.nn.Module):
    """Calls the program back in the midst of its backward: what has arrived by then is seen."""

    def __init__(self, how):
        super().__init__()
        self.first, self.second, self.how = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3), how

    def forward(self, x):
        if self.how == "hook":
            h = self.first(x)
            h.register_hook(lambda g: g * 2)
        elif self.how == "hooks":
            h = self.first(x)
        else:
            h = checkpoint(lambda t: torch.tanh(self.first(t)), x, use_reentrant=self.how == "reentrant")
        return self.second(h)


def reduced_and_called_back(how, is_view):
    model = torch.nn.parallel.DistributedDataParallel(Called(how), gradient_as_bucket_view=is_view)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters() if how == "hooks" else []:
        parameter.register_hook(lambda g: None)
    for step in range(3):
        optimizer.zero_grad()
        for part in range(2):
            data = (images * (part + 1)).clone().requires_grad_(how == "reentrant")
            model(data).pow(2).mean().backward()
            print("called back", how, step, part, words(*(parameter.grad for parameter in model.parameters())))
        optimizer.step()


if edge_of:
    asked_for()
    made()
    try:
        begun()
    except (AssertionError, AttributeError, TypeError):  # before 2.7
        print("no backward from edges")
grows()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
for is_view in False, True:
    reduced(is_view)
    for how in "hook", "hooks", "reentrant", "again":
        reduced_and_called_back(how, is_view)
dist.destroy_process_group()
