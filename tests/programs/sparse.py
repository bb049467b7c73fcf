"""Sparse gradients of embeddings: SGD and SparseAdam, accumulated over two backwards, onto a dense one, asked for with torch.autograd.grad."""
import torch
from torch.nn import functional

torch.manual_seed(1)
words, labels = torch.randint(0, 40, (23, 5)), torch.arange(23) % 3
table = torch.nn.Embedding(40, 6, sparse=True)
padded = torch.nn.Embedding(40, 6, sparse=True, padding_idx=3)
head = torch.nn.Linear(6, 3)
sparse = torch.optim.SparseAdam([table.weight, padded.weight], lr=0.05)
dense = torch.optim.SGD(head.parameters(), lr=0.1)


def show(name, tensor):
    if tensor.is_sparse:
        print(f"{name} {tuple(tensor.shape)} {tensor._nnz()} {tensor.is_coalesced()} {tensor._indices().sum().item()}")
        tensor = tensor.coalesce()
        print(f"coalesced {tensor._nnz()} {tensor.indices().reshape(-1).tolist()[:30]}")
        tensor = tensor.to_dense()
    print(f"{name} {tuple(tensor.shape)} {tensor.norm().item():.5f} {tensor.sum().item():.5f}")


def loss_of(part):
    hidden = table(part) + padded(part)
    return functional.cross_entropy(head(hidden.mean(1).tanh()), labels[:len(part)])


for step in range(4):
    loss = loss_of(words)
    loss.backward()
    if step == 1:
        loss_of(words[:17]).backward()
    if step == 2:
        (table.weight[:10].sum() * 0.01).backward()
    if step == 3:
        show("asked", torch.autograd.grad(loss_of(words), [table.weight])[0])
    print(f"step {step} {loss.item():.5f}")
    for parameter in [table.weight, padded.weight, head.weight]:
        show("gradient", parameter.grad)
    if step == 2:
        table.weight.grad = None
    sparse.step()
    dense.step()
    sparse.zero_grad(set_to_none=True)
    dense.zero_grad(set_to_none=True)
show("table", table.weight.detach())
show("padded", padded.weight.detach())

# a hook on the table sees all entries, and what it returns is what the table gets
hooks = [table.weight.register_hook(lambda gradient: show("seen", gradient)), table.weight.register_hook(lambda gradient: gradient * 2)]
loss_of(words).backward()
show("doubled", table.weight.grad)
hooks.pop().remove()
hooks.append(table.weight.register_hook(lambda gradient: gradient.coalesce()))
table.weight.grad = None
loss_of(words).backward()
show("coalesced", table.weight.grad)
hooks.pop().remove()
table.weight.grad = None
loss_of(words[:17]).backward()
show("seen alone", table.weight.grad)

# bags: each entry once
for mode in ["sum", "mean"]:
    bags = torch.nn.EmbeddingBag(40, 6, sparse=True, mode=mode)
    functional.cross_entropy(head(bags(words)), labels).backward()
    show(f"bags, {mode}", bags.weight.grad)
    weights = torch.rand(23, 5) if mode == "sum" else None
    bags.weight.grad = None
    print(f"{mode} {bags(words, per_sample_weights=weights).tanh().sum().item():.5f}")
    bags.weight.grad = None
    lengths = bags(words.reshape(-1), torch.tensor([0, 1, 1, 5, 9, 30, 31, 31, 40, 60, 60, 90, 91, 92, 93, 94, 95, 96, 100, 110, 115, 115, 115]))
    functional.cross_entropy(head(lengths), labels).backward()
    show(f"bags of several lengths, {mode}", bags.weight.grad)

factors = torch.randn(23, 5, 6)
# where the backward is recorded, but the entries do not hang on the parameters
for word, loss_of_table in {"first": lambda: (table(words) * factors).sum(), "added": lambda: (table(words[:9]) * factors[:9]).sum(), "dense": lambda: table.weight.sum()}.items():
    table.weight.grad = None if word == "first" else table.weight.grad
    loss_of_table().backward(create_graph=True)
    show(f"recorded, {word}", table.weight.grad)
show("recorded, asked", torch.autograd.grad((table(words) * factors).sum(), [table.weight], create_graph=True)[0])

# entries that flow on from a hook, which has seen all of them
hooks.pop().remove()
found = (table(words) * factors).sum(2).abs().mul(7).long().flatten() % 40
weight, table.weight.grad = table.weight * 2, None
weight.register_hook(lambda gradient: gradient.coalesce())
functional.embedding(found, weight, sparse=True).tanh().pow(2).mean().backward()
show("doubled entries", table.weight.grad)


# hooks on a node that return nothing, and write to the entries
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight):
        return weight.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1


def limit(gradients):
    gradients[0]._values().mul_(100).clamp_(-0.1, 0.1)


for kind in ["register_hook", "register_prehook"]:
    table.weight.grad = None
    weight = Same.apply(table.weight)
    if hasattr(weight.grad_fn, kind):  # of 2.0
        getattr(weight.grad_fn, kind)(lambda gradients, *outputs: limit(gradients))
        functional.embedding(found, weight, sparse=True).tanh().pow(2).mean().backward()
        show(f"written, {kind}", table.weight.grad)
