"""Leaves made from what a layer computed: features taken with detach().requires_grad_(), as for two-part backwards and adversarial examples."""
import torch

torch.manual_seed(1)
encoder, head = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)
parameters = [*encoder.parameters(), *head.parameters()]
images, targets = torch.randn(23, 6), torch.arange(23) % 3


def show(name, tensor):
    print(f"{name} {tuple(tensor.shape)} {tensor.norm().item():.4f} {tensor.reshape(-1)[-1].item():.4f}")


for step in range(3):
    hidden = encoder(images)
    features = hidden.detach().requires_grad_()
    torch.nn.functional.cross_entropy(head(features), targets).backward()
    show("once", features.grad)
    head(features).pow(2).mean().backward()
    show("twice", features.grad)
    features.grad.zero_()
    (head(features).sum() * 0.01).backward()
    show("after zero_", features.grad)
    features.grad = torch.ones(23, 5)
    (head(features).sum() * 0.01).backward()
    show("onto a whole one", features.grad)
    hidden.backward(features.grad)
    total = head(hidden.detach()).sum().detach().requires_grad_()
    (total * 3 + total.pow(2) + head.bias.sum() * total).backward()
    show("a number", total.grad)
    with torch.no_grad():
        moved = features - 0.1 * features.grad.sign()
        show("moved", moved)
        for parameter in parameters:
            show("parameter", parameter.grad)
            parameter -= 0.1 * parameter.grad
            parameter.grad = None

# a parameter without values takes other data as it would in one process
empty = torch.nn.Parameter(torch.empty(3, device="meta"))
empty.data = torch.empty(4, device="meta")
print("meta", tuple(empty.shape))
