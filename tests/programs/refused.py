"""What is stopped by name, one case each: python refused.py CASE."""
import os
import sys

import torch

from wrapper import Wrapper

torch.manual_seed(1)
images, targets = torch.randn(23, 6), torch.arange(23) % 3
first, second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 3)


def node_hook():
    hidden = first(images)
    hidden.grad_fn.register_hook(lambda inputs, outputs: print(inputs[0].norm()))
    return second(hidden)


def node_prehook():
    hidden = first(images).relu()
    hidden.grad_fn.register_prehook(lambda outputs: print(outputs[0].norm()))
    return second(hidden)


def module_hook():
    first.register_backward_hook(lambda module, inputs, outputs: print(outputs[0].norm()))
    return second(first(images).relu())


def both_copies():
    hidden = first(images).detach()
    torch._foreach_add_([hidden[3], hidden[:, :2][5]], 1.0)
    return second(hidden)


def two_pointers():
    hidden = first(images).detach()
    whole, row = hidden.numpy(), hidden[3].numpy()
    whole[0] = 5
    row[0] = 7
    return second(hidden)


def gaps():
    return second(torch.as_strided(first(images)[:, 2:], (23, 8), (8, 1), 0))


def gaps_with_place():
    return second(torch.as_strided(first(images)[:, :6], (22, 8), (8, 1), 2))


def gaps_of_row():
    hidden = first(images)
    return second(hidden) + torch.as_strided(hidden.detach()[:, :6][2:5], (3, 8), (8, 1)).sum()


def gaps_from_place():
    hidden = first(images)
    row = hidden.detach()[:, 1:][3]
    return second(hidden) + torch.as_strided(row, (3,), (1,), row.storage_offset() + 1).sum()


def set_leaf():
    hidden, leaf = first(images), torch.zeros(3, requires_grad=True)
    with torch.no_grad():
        leaf.set_(hidden.detach())
    return second(hidden)


def rows_of_twins():
    hidden = first(images)
    rows, factor = hidden.detach(), torch.ones(8, requires_grad=True)
    held = rows.detach()[0]
    rows[3].mul_(factor)
    return second(hidden) + held.sum()


def copied_gaps():
    return second(torch.as_strided_copy(first(images).detach()[:, :6], (23, 8), (8, 1)))


def traced_constant():
    """Divided rows that a trace would keep as a constant: this rank's."""
    hidden = first(images).detach()
    return torch.jit.trace(lambda x: (x * hidden).relu(), torch.ones(23, 8), check_trace=False)(torch.ones(23, 8))


def mapped_grad():
    hidden = first(images)
    torch.func.vmap(lambda v: torch.autograd.grad(hidden.tanh().sum(0), first.weight, v, retain_graph=True)[0])(torch.eye(8))


def mapped_grad_outside():
    total = first(images).tanh().sum(0)
    torch.func.vmap(lambda v: torch.autograd.grad(total, first.weight, v, retain_graph=True)[0])(torch.eye(8))


def traced():
    from torch.fx.experimental.proxy_tensor import make_fx

    hidden = first(images).detach()
    return make_fx(lambda h: second(h.tanh()))(hidden)(hidden)


def traced_rows():
    class Viewed(torch.nn.Linear):
        def forward(self, hidden):
            return super().forward(hidden).view(-1, 3)  # a trace would have this rank's rows here

    hidden = first(images).detach()
    return torch.jit.trace(Viewed(8, 3), hidden, check_trace=False)(hidden)


class Wrap(torch.autograd.Function):
    @staticmethod
    def forward(ctx, tensor):
        return Wrapper(tensor.detach())

    @staticmethod
    def backward(ctx, gradient):
        return gradient.inner


def wrapped_gradient():
    Wrap.apply(first(images)).tanh().sum().backward()


def wrapped_sum():
    (Wrapper(images) + second(first(images))[:, :1]).sum().backward()


def mode_in_backward():
    from torch.utils.flop_counter import FlopCounterMode

    loss = second(first(images)).sum()
    with FlopCounterMode(display=False):
        loss.backward()


def jagged():
    return torch.nested.nested_tensor_from_jagged(first(images), torch.tensor([0, 4, 9, 23]))


def many_dimensions():
    """Time first, and merged: rows in pieces."""
    hidden = first(torch.randn(5, 8, 6)).transpose(0, 1).reshape(40, 8)
    return second((hidden * torch.ones((1,) * 16 + (40, 1))).reshape(40, 8))[:23]


def shared():
    hidden = first(images).detach()
    torch._foreach_add_([hidden, hidden[:, :3]], 1.0)
    return second(hidden)


def third_derivative():
    values = torch.nn.functional.batch_norm(first(images), None, None, training=True).sin()
    (gradient,) = torch.autograd.grad(values.sum(), first.weight, create_graph=True)
    return torch.autograd.grad(gradient.pow(2).sum(), first.weight, create_graph=True)


def sparse_again():
    table = torch.nn.Embedding(9, 6, sparse=True)
    second(first(table(torch.arange(16) % 9))).pow(2).mean().backward(create_graph=True)
    return table.weight.grad.coalesce().values()


def sparse_penalty():
    table = torch.nn.Embedding(9, 6, sparse=True)
    (gradient,) = torch.autograd.grad(table(torch.arange(16) % 9).pow(2).mean(), table.weight, create_graph=True)
    return first(images).mean() + gradient.coalesce().values().pow(2).sum()


def edge_of_a_node():
    loss = torch.nn.functional.cross_entropy(second(first(images)), targets)
    node = loss.grad_fn
    del loss
    torch.autograd.backward(torch.autograd.graph.GradientEdge(node, 0))


def image_layout():
    values = torch.nn.functional.instance_norm(first(images).view(-1, 2, 2, 2)).flatten(2).transpose(1, 2)
    values, _ = torch.nn.GRU(2, 3, batch_first=True)(values)
    return torch.autograd.grad(values.sum(), first.weight, create_graph=True)


def cond():
    return second(torch.cond(images.sum() > 0, lambda x: first(x), lambda x: first(x) * 2, (images,)))


number = 0.1234567 * (1 + int(os.environ.get("ACCEL_RUN_RANK", 0)))  # as one that a clock gives


def number_times_loss():
    for _ in range(2):
        (number * torch.nn.functional.cross_entropy(second(first(images)), targets)).backward()


def number_of_dropout():
    return second(torch.dropout(first(images), number, True))


def number_in_a_tensor():
    return second(first(images) / torch.tensor(number))


def number_that_flows():
    torch.nn.functional.cross_entropy(second(first(images)), targets).backward(torch.tensor(number))


def number_in_a_hook():
    hidden = first(images)
    hidden.register_hook(lambda gradient: gradient * number)
    return second(hidden)


def number_after_a_gather():
    return second(first(images).sort(0).values * number)


def number_of_a_composite():
    return torch.nn.functional.cross_entropy(second(first(images)), targets, label_smoothing=number).backward()


def numbers_by_column():
    numbers = torch.arange(69.0, dtype=torch.float64).reshape(3, 23).t()
    numbers[14, 2] += 99 * number
    for _ in range(2):
        torch.nn.functional.smooth_l1_loss(second(first(images)).double(), numbers).backward()


def numbers_in_another_order():
    return second(first(images)) - torch.tensor([1.0, *([2.0, 3.0] if number < 0.2 else [3.0, 2.0])])


def number_of_a_class():
    weight = torch.tensor([1, 2, number])
    for _ in range(2):
        torch.nn.functional.cross_entropy(second(first(images)), targets, weight).backward()


def comm_hook():
    import torch.distributed as dist

    def normalised(state, bucket):
        future = torch.futures.Future()
        future.set_result(bucket.buffer() / bucket.buffer().norm())
        return future

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(first)
    model.register_comm_hook(None, normalised)
    return second(model(images))


def leaf_hook():
    """After a Reducer, which has sums made in the memory that leaves have taken over."""
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(second)
    node = first.weight.expand_as(first.weight).grad_fn.next_functions[0][0]
    node.register_hook(lambda inputs, outputs: print(outputs[0].norm()))
    model(first(images)).pow(2).mean().backward()


def saved_hook():
    hidden = first(images).tanh()
    hidden.grad_fn._raw_saved_result.register_hooks(lambda tensor: tensor.abs().max(), lambda scale: scale)
    return second(hidden)


out = globals()[sys.argv[1]]()
torch.nn.functional.cross_entropy(out, targets).backward()
print("not stopped")
