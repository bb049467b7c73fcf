"""What a backward begins with: one output of several, seeds that come from the batch, gradients that are themselves differentiated."""
import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
model, batch = torch.nn.Linear(6, 5), torch.randn(13, 6)
weights = torch.nn.Parameter(torch.randn(6, 5))


class LossAndTable(torch.autograd.Function):
    @staticmethod
    def forward(context, values, weights):
        hidden = values.mm(weights)
        context.save_for_backward(values)
        return hidden.sum(), torch.sort(hidden.detach(), 0).values.clone()

    @staticmethod
    def backward(context, gradient, unused):
        (values,) = context.saved_tensors
        return None, values.sum(0)[:, None].expand(6, 5) * gradient


class RowsAndTable(torch.autograd.Function):
    @staticmethod
    def forward(context, values, weights):
        hidden = values.mm(weights)
        context.save_for_backward(values)
        return hidden * 1.0, torch.sort(hidden, 0).values.clone()

    @staticmethod
    def backward(context, gradient, unused):
        (values,) = context.saved_tensors
        return None, values.t().mm(gradient)


def show(name, *tensors):
    print(name, *(f"{tuple(t.shape)} {t.double().sum().item():.5f} {t.double().norm().item():.5f}" for t in tensors))


loss, table = LossAndTable.apply(batch, weights)
loss.backward()
show("one of two, a sum", weights.grad, table)
weights.grad = None
rows, table = RowsAndTable.apply(batch, weights)
rows.backward(torch.ones(13, 5))
show("one of two, rows", weights.grad, table)
chunks = model(batch).tanh().chunk(2, 1)
show("a chunk", *torch.autograd.grad(chunks[1].pow(2).sum(), model.parameters()))

features = model(batch).detach()
table = torch.nn.Parameter(torch.ones(5))
(table * table).backward(features.sum(0))
show("seed of the batch, root of parameters", table.grad, *torch.autograd.grad(table * 3, table, features.mean(0)))
loss = model(batch).pow(2).mean()
loss.backward(loss.detach())
show("seed of the batch, root of the batch", model.weight.grad)
show("the same with a list", *torch.autograd.grad([model(batch).sum(0), model(batch).mean()], model.weight, [features.mean(0), features.sum()]))

(gradient,) = torch.autograd.grad(model(batch).pow(2).mean(), model.weight, create_graph=True)
show("gradient at a gradient", *torch.autograd.grad(gradient.sum(), gradient, retain_graph=True))
gradient.retain_grad()
gradient.register_hook(lambda value: show("seen there", value))
gradient.sum().backward()
show("retained there", gradient.grad)
model.zero_grad()
model(batch).pow(2).mean().backward(create_graph=True)
show("at .grad", *torch.autograd.grad(model.weight.grad.pow(2).sum(), [model.weight.grad, model.weight]))
model.zero_grad()
many = model(torch.randn(60, 6)).pow(2)
show("300 roots", *torch.autograd.grad(torch.unbind(many.flatten()), model.parameters(), retain_graph=True))
torch.autograd.backward([*torch.unbind(many.flatten())], [torch.tensor(float(i)) for i in range(300)], retain_graph=True)
torch.autograd.backward([column.sum() * weight.sin() for column in many.t() for weight in weights.flatten()])
torch.autograd.backward([weight * 2 for weight in weights.repeat(10, 1).flatten()])
show("300 roots", model.weight.grad, weights.grad)

# roots that are leaves themselves: what a checkpoint hands through within the backward, what the program has detached
body = torch.nn.Linear(5, 5)


def handed_through(values, other):
    return torch.tanh(body(values)), other


for name, of in (("a sum", lambda hidden: hidden.pow(2).mean()), ("rows", lambda hidden: model(batch)), ("parameters", lambda hidden: weights * 2)):
    model.zero_grad()
    weights.grad = None
    hidden = model(batch)
    first, second = checkpoint(handed_through, hidden, of(hidden), use_reentrant=True)
    (first.pow(2).mean() + second.pow(2).mean()).backward()
    show(f"handed through: {name}", *(p.grad for p in (*model.parameters(), weights) if p.grad is not None))
for kind, of in (("a sum", lambda rows: rows.pow(2).mean()), ("rows", lambda rows: rows), ("whole", lambda rows: weights.detach().clone())):
    leaf, other = of(model(batch)).detach().requires_grad_(), model(batch).pow(2).mean()
    seed = torch.full_like(leaf, 2.0)
    show(f"asked for at a leaf: {kind}", *torch.autograd.grad([leaf, other], [leaf, model.weight], [seed, None], retain_graph=True))
    torch.autograd.backward([other, leaf], [None, seed], retain_graph=True)
    show(f"beside another: {kind}", leaf.grad)
    leaf.backward(of(model(batch)).detach())
    show(f"alone: {kind}", leaf.grad)
    torch.autograd.backward([leaf, leaf * 3, other], [of(model(batch)).detach(), seed, None])
    show(f"thrice: {kind}", leaf.grad)

# gradients that are one tensor, or views of one, are written to by whom they are handed out to
ones, others, turned = (torch.nn.Parameter(torch.randn(*size)) for size in ((6, 3), (6, 3), (3, 6)))
inner = torch.nn.Linear(6, 6)(batch).detach()
for graph in (False, True):
    for sum_of in (lambda: ones + others, lambda: (ones.unsqueeze(0) + others.unsqueeze(0) + turned.t()).squeeze(0)):
        grads = torch.autograd.grad((inner @ sum_of()).pow(2).mean(), [ones, turned, others], create_graph=graph, allow_unused=True)
        grads = [gradient for gradient in grads if gradient is not None]
        with torch.no_grad():
            for gradient in grads if not graph or len(grads) == 2 else ():
                gradient.mul_(0.5)
        show(f"handed out {[grads[0] is gradient for gradient in grads]}", *grads)
    rows = inner @ ones, inner @ others
    grads = torch.autograd.grad((rows[0] + rows[1]).pow(2).mean(), [*rows, ones])
    show(f"handed out {grads[0] is grads[1]}", *(gradient.mul_(0.5) for gradient in grads))

# what is asked for has the bits of what backward() leaves
for dtype in torch.float32, torch.float64, torch.bfloat16:
    net = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.Tanh(), torch.nn.Linear(40, 5)).to(dtype)
    asked = torch.autograd.grad(net(batch.to(dtype)).pow(2).mean(), [*net.parameters(), net[0].weight])
    net(batch.to(dtype)).pow(2).mean().backward()
    print("asked for and left", dtype, *(torch.equal(gradient, parameter.grad) for gradient, parameter in zip(asked, net.parameters())), asked[0] is asked[-1])
