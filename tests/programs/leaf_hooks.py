"""Hooks on the nodes that accumulate into leaves, which optimizers that step in the backward and FullyShardedDataParallel use."""
import warnings

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)
wide, narrow = torch.nn.Linear(6, 40000), torch.nn.Linear(40000, 3)
table = torch.nn.Embedding(9, 6, sparse=True)
nodes = []  # of a leaf, held by who looks at them alone


def show(name, *tensors):
    print(name, *(f"{tuple(t.shape)} {t.double().norm().item():.5f} {t.reshape(-1)[-1].item():.5f}" for t in tensors))


def node(leaf):
    nodes.append(leaf.expand_as(leaf).grad_fn.next_functions[0][0])
    return nodes[-1]


def see(name, leaf):
    def after(inputs, outputs):
        show(name, outputs[0], leaf.grad)
        assert inputs == ()

    return node(leaf).register_hook(after)


def train(forward, leaves):
    """Into nothing, onto what is there, and onto zeros."""
    for step in range(3):
        loss = functional.cross_entropy(forward(), targets)
        if step == 2:
            for leaf in leaves:
                leaf.grad.zero_()
        loss.backward()
        show("loss", loss, *(leaf.grad for leaf in leaves))
    for leaf in leaves:
        leaf.grad = None


def plain():
    return second(first(images).relu())


def two_hooks():
    handles = [see("first", first.weight), see("second", first.weight), see("bias", second.bias)]
    if hasattr(first.weight, "register_post_accumulate_grad_hook"):
        handles.append(first.weight.register_post_accumulate_grad_hook(lambda leaf: show("accumulated", leaf.grad)))
    train(plain, [first.weight, second.bias])
    return handles


def changed_before():
    handles = [see("after", second.weight), node(second.weight).register_prehook(lambda outputs: (outputs[0].clamp(-0.01, 0.01),))]
    handles.append(node(second.bias).register_prehook(lambda outputs: show("before", outputs[0])))
    train(plain, [second.weight, second.bias])
    return handles


def changed_after():
    handles = [node(first.weight).register_hook(lambda inputs, outputs: torch.clamp_(first.weight.grad, -0.01, 0.01).numel() and None)]
    train(plain, [first.weight])
    return handles


def one_memory():
    other = torch.nn.Parameter(torch.ones(64))
    handles = [see("other", other), see("weight", second.weight)]
    train(lambda: functional.linear(first(images), second.weight + other[:24].view(3, 8)), [second.weight, other])
    return handles


def large():
    handles = [see("large", wide.weight), see("large", narrow.weight)]
    train(lambda: narrow(wide(images).tanh()), [wide.weight, narrow.weight])
    return handles


def steps_in_the_backward():
    def step(leaf):
        with torch.no_grad():
            leaf.sub_(0.1 * leaf.grad)
        leaf.grad = None

    handles = [node(leaf).register_hook(lambda inputs, outputs, leaf=leaf: step(leaf)) for leaf in [*first.parameters(), *second.parameters()]]
    for _ in range(3):
        functional.cross_entropy(plain(), targets).backward()
        show("stepped", first.weight, first.bias, second.weight)
    return handles


def rows():
    hidden = first(images).detach().requires_grad_()
    handles = [see("rows", hidden), node(hidden).register_prehook(lambda outputs: (outputs[0] / outputs[0].norm(),))]
    train(lambda: second(hidden), [hidden])
    return handles


def sparse():
    handles = [node(table.weight).register_hook(lambda inputs, outputs: show("sparse", outputs[0].to_dense(), table.weight.grad.to_dense()))]
    functional.cross_entropy(second(first(table(torch.arange(23) % 9))), targets).backward()
    table.weight.grad = None
    return handles


def recomputed():
    handles = [see("recomputed", first.weight)]
    start = images.clone().requires_grad_()
    train(lambda: second(checkpoint(lambda x: first(x).tanh(), start, use_reentrant=True)), [first.weight])
    return handles


def sharded():
    from torch import distributed
    from torch.distributed.fsdp import FullyShardedDataParallel

    warnings.simplefilter("ignore")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    model = FullyShardedDataParallel(torch.nn.Sequential(first, torch.nn.ReLU(), second), device_id=torch.device("cpu"), use_orig_params=True)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), targets)
        loss.backward()
        show("sharded", loss, model.clip_grad_norm_(0.1))
        optimizer.step()
    distributed.destroy_process_group()
    return []


for case in [two_hooks, changed_before, changed_after, one_memory, large, steps_in_the_backward, rows, sparse, recomputed]:
    print(case.__name__)
    for handle in case():
        handle.remove()
    for leaf in [*first.parameters(), *second.parameters(), *wide.parameters(), *narrow.parameters()]:
        leaf.grad = None
if tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13):  # not tried on the CPU with earlier ones
    sharded()
