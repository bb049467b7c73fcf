"""Autocast to float16 with a scaler: the gradient of the whole batch is beyond float16's range where each rank's part is not, in the first steps."""
import torch
import torch.utils.checkpoint
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
x, y = torch.randn(64, 12), torch.randn(64, 3)


def train(name, net, scale, steps=12, fused=1):
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    for step in range(steps):
        optimizer.zero_grad()
        for part in range(fused):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = (net(x[part::fused]).float() - y[part::fused]).pow(2).mean()
            scaler.scale(loss).backward()
        infinite = [bool(p.grad.isinf().any()) for p in net.parameters()]
        scaler.step(optimizer)
        scaler.update()
        print(name, step, f"{loss.item():.1f}", scaler.get_scale(), infinite)


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.LayerNorm(32), nn.Linear(32, 3))


def large_network():
    """What the rows add to the second layer's gradients has one sign: no part is beyond the range where the sum is not."""
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(12, 4096), nn.Sigmoid(), nn.Linear(4096, 3))
    with torch.no_grad():
        net[2].bias.fill_(-9.0)
    return net


class ByHand(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.weight, self.shift = nn.Parameter(torch.randn(3, 12)), nn.Parameter(torch.zeros(3))

    def forward(self, values):
        return F.linear(values.half(), self.weight.half()).float() + self.shift


class Tied(nn.Module):
    """The table's gradient comes in float32 from the rows looked up, which is finite beyond float16's range."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.table, self.hidden = nn.Embedding(12, 16), nn.Linear(16, 16)

    def forward(self, values):
        looked_up = self.table(values.abs().argmax(1))
        return F.linear(torch.tanh(self.hidden(looked_up)), self.table.weight)[:, :3] + looked_up[:, :3] * 1e3


class Twice(nn.Module):
    """Two casts, each of them within the range, their sum beyond it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(4)
        self.weight = nn.Parameter(torch.randn(3, 12))

    def forward(self, values):
        parts = [F.linear(part.half(), self.weight.half()).float() for part in (values[:, :12] + 3, values.abs())]
        return parts[0] + parts[1]


class Checkpointed(nn.Module):
    def __init__(self, use_reentrant):
        super().__init__()
        self.net, self.use_reentrant = network(), use_reentrant

    def forward(self, values):
        hidden = self.net[0](values)
        return torch.utils.checkpoint.checkpoint(self.net[1:], hidden, use_reentrant=self.use_reentrant)


for exponent in 14, 15, 16, 17, 18:
    train(f"2^{exponent}", network(), 2.0**exponent)
train("accumulated", network(), 2.0**17, fused=2)
train("large", large_network(), 2.0**15)
train("large, accumulated", large_network(), 2.0**15, fused=2)
train("by hand", ByHand(), 2.0**17)
for exponent in 6, 13, 15, 17:
    train(f"tied 2^{exponent}", Tied(), 2.0**exponent, steps=4)
    train(f"twice 2^{exponent}", Twice(), 2.0**exponent, steps=4)
for use_reentrant in False, True:
    train(f"checkpointed {use_reentrant}", Checkpointed(use_reentrant), 2.0**17)

def large_gradient(scale, *hooks, **settings):
    """Eight rows, whose gradients of `scale` float16 adds up; hooks come after it, in float32."""
    torch.manual_seed(0)
    layer, weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4, 1))
    for hook in hooks:
        weight.register_hook(hook)
    for _ in range(2):
        weight.grad = None
        rows = layer(torch.ones(8, 4)) * 0 + scale
        (rows.half() @ weight.half()).float().sum().backward(**settings)
        print("large", scale, len(hooks), settings, *weight.grad.flatten().tolist())


def tenfold(gradient):
    gradient.mul_(10)


for scale in 1000, 10000:
    for settings in {}, {"create_graph": True}:
        large_gradient(scale, **settings)
        large_gradient(scale, lambda gradient: gradient * 10, **settings)
    large_gradient(scale, lambda gradient: gradient if gradient.isfinite().all() else torch.zeros_like(gradient), tenfold)
    large_gradient(scale, torch.nan_to_num)
    large_gradient(scale, tenfold, lambda gradient: print("seen", gradient.tolist()))

with torch.no_grad():  # what is not trained on, as a whole
    net, rows, classes = nn.Linear(8, 4).half(), torch.randn(32, 8).half(), torch.arange(32) % 4
    scores, weights = net(rows), torch.tensor([1.0, 2.0, 3.0, 4.0]).half()
    print("evaluated", *("%.2f" % loss.item() for loss in (F.cross_entropy(scores, classes), F.cross_entropy(scores, classes, weights), F.nll_loss(F.log_softmax(scores, 1), classes))))

# all of it in float16: a variance beyond its range, and losses that are finite where their sum is not, if they are so in one process
torch.manual_seed(5)
net = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6), nn.Linear(6, 4)).half()
rows, classes = (torch.randn(64, 8) * 9000).half(), torch.arange(64) % 4
loss = F.cross_entropy(net(rows) * 9000, classes)
loss.backward()
print("all half", "%.1f" % loss.item(), *("%.2g" % parameter.grad.float().norm().item() for parameter in net.parameters()), *("%.3g" % value for value in net[1].running_var.tolist()))
