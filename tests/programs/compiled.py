"""torch.compile in its forms; a checkpoint keeps the names that it gives. fullgraph asks that something has been compiled, and so does flex_attention."""
import warnings

import torch
from torch.nn.attention.flex_attention import flex_attention

warnings.simplefilter("ignore")  # flex_attention says that it is slow
torch.manual_seed(3)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
plain = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
model = torch.compile(plain, backend="aot_eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


@torch.compile(backend="eager", fullgraph=True)
def loss_of(outputs, wanted):
    return torch.nn.functional.cross_entropy(outputs, wanted) + 0.1 * outputs.logsumexp(1).pow(2).mean()


for begin in range(0, 23, 8):
    optimizer.zero_grad()
    loss = loss_of(model(images[begin:begin + 8]), targets[begin:begin + 8])
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
print({name: round(value.sum().item(), 4) for name, value in model.state_dict().items()})
plain = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
plain.compile(backend="eager")
print(plain(images).argmax(1).tolist())

with torch.no_grad():
    query, key, value = torch.nn.Linear(6, 24)(images.view(1, 23, 6).expand(5, -1, -1) + torch.arange(5.0).view(5, 1, 1)).view(5, 23, 3, 2, 4).permute(2, 0, 3, 1, 4)
    attended = flex_attention(query, key, value, score_mod=lambda score, b, h, i, j: torch.where(i >= j, score, -float("inf")))
print(f"{attended.norm().item():.5f} {attended[3, 1, 7].tolist()[0]:.5f}")
