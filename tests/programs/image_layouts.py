"""Gradients of normalised images in the layouts that layers behind them leave: rows and channels innermost (recurrent layers, transformers), of which libtorch's
kernel makes something else (docs/limits.md), channels innermost, in batches that are divided and in ones too short for that."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_dtype(torch.float64)
CHANNELS = 3


class Network(nn.Module):
    def __init__(self, norm, dims, behind):
        super().__init__()
        self.first = getattr(nn, f"Conv{dims}d")(2, CHANNELS, 1)
        self.norm, self.behind = norm, behind
        self.recurrent = nn.LSTM(CHANNELS, 4, batch_first=True)
        self.attention = nn.TransformerEncoderLayer(CHANNELS, 1, 8, dropout=0.0)
        self.last = nn.Linear(CHANNELS, 4)

    def forward(self, x):
        y = self.norm(self.first(x))
        if self.behind == "recurrent":
            return self.recurrent(y.flatten(2).transpose(1, 2))[0][:, -1]
        if self.behind == "attention":
            return self.attention(y.flatten(2).permute(2, 0, 1)).sum(0)
        if self.behind == "changed":  # in place, where a normalised image of one process is a view
            return self.recurrent(y.relu_().flatten(2).transpose(1, 2))[0][:, -1]
        return self.last(y.permute(0, *range(2, y.dim()), 1)).flatten(1, -2).sum(1)


def norms(dims):
    yield "batch", getattr(nn, f"BatchNorm{dims}d")(CHANNELS)
    yield "batch evaluated", getattr(nn, f"BatchNorm{dims}d")(CHANNELS).eval()
    yield "instance", getattr(nn, f"InstanceNorm{dims}d")(CHANNELS)
    yield "instance affine", getattr(nn, f"InstanceNorm{dims}d")(CHANNELS, affine=True)
    yield "instance running", getattr(nn, f"InstanceNorm{dims}d")(CHANNELS, affine=True, track_running_stats=True)
    yield "instance evaluated", getattr(nn, f"InstanceNorm{dims}d")(CHANNELS, track_running_stats=True).eval()


def train(name, network, images, batch):
    for _, parameter in sorted(network.named_parameters()):
        nn.init.uniform_(parameter, -1, 1)
    for (rows,) in DataLoader(TensorDataset(images), batch_size=batch):
        network.zero_grad()
        loss = network(rows).pow(2).sum(1).mean()
        loss.backward()
        gradients = sum((p.grad * torch.arange(1.0, p.numel() + 1).view_as(p)).sum() for p in network.parameters() if p.grad is not None)
        statistics = sum(b.double().sum() for b in network.norm.buffers())
        print(f"{name} {len(rows)} {loss.item():.8f} {gradients.item():.7f} {float(statistics):.8f}")


torch.manual_seed(1)
for dims in (1, 2, 3):
    places = (2, 3, 4)[:dims]
    for behind in ("recurrent", "attention", "changed", "places"):
        for name, norm in norms(dims):
            for batch in (2, 7):
                train(f"{dims} {behind} {name}", Network(norm, dims, behind), torch.randn(2 * batch + 1, 2, *places), batch)
