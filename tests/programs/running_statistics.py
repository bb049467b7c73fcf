"""Running statistics of batch norms as graphs see them: libtorch's kernels write them past the version that a backward compares with what it has saved."""
import torch
import torch.nn as nn

torch.manual_seed(3)
data = torch.randn(22, 6)


def figures(*tensors):
    return " ".join(f"{tensor.double().sum().item():.4f} {tensor.double().norm().item():.4f}" for tensor in tensors)


def evaluated_first(create_graph):
    """A penalty without mixing rows, then a training step; one backward for both."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    for _ in range(2):
        net.eval()
        penalty = net(data).pow(2).mean()
        net.train()
        loss = net(data).mean() + penalty
        loss.backward(create_graph=create_graph)
        print("evaluated first", create_graph, f"{loss.item():.4f}", net[1].running_mean._version,
              figures(net[1].running_mean, net[1].running_var, *(parameter.grad for parameter in net.parameters())))
        net.zero_grad()


evaluated_first(False)
evaluated_first(True)

layer, grown = nn.InstanceNorm1d(3, track_running_stats=True), nn.Linear(6, 12)
layer(grown(data).view(22, 3, 4))
print("instance norm", layer.running_mean._version, figures(layer.running_mean, layer.running_var))
