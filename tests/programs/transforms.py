"""torch.func: transforms of divided features and of living parameters, forward and back through them. Prints sums; ranks print the plain run's words."""
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap

torch.manual_seed(11)
torch.set_num_threads(1)
ROWS = 13
model = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch, target = torch.randn(ROWS, 8, dtype=torch.float64), torch.randn(ROWS, 6, dtype=torch.float64)
model.double()
live = dict(model.named_parameters())
weights = torch.linspace(-1, 1, 6, dtype=torch.float64)


def show(name, value):
    print(f"{name} {tuple(value.shape)} {value.detach().sum().item():.6f} {value.detach().abs().max().item():.6f}")


def of_rows(features):
    """Each row by itself: sizes, gathers, products, a draw for all."""
    return {
        "view": vmap(lambda r: r.view(2, 3).t().reshape(6))(features),
        "outer": vmap(torch.outer)(features, features),
        "both": vmap(vmap(lambda a: a * a + 1))(features),
        "last": vmap(lambda c: c / c.norm(), in_dims=1, out_dims=1)(features),
        "mean": vmap(lambda r: r - features.mean() + features.sum(0))(features),
        "whole": vmap(lambda r, t: (r - t).pow(2).mean())(features, target),
        "expand": vmap(lambda r: r.unsqueeze(0).expand(3, 6))(features),
        "grad": vmap(grad(lambda r: r.pow(3).sum()))(features),
        "jacobian": vmap(jacrev(lambda r: r.tanh() * r.sum()))(features),
    }


def loss_of(parameters, rows, wanted):
    return torch.nn.functional.mse_loss(functional_call(model, parameters, (rows,)), wanted)


for step in range(3):
    features = model(batch)
    loss = torch.nn.functional.mse_loss(features, target)
    for name, value in of_rows(features).items():
        show(f"{step} {name}", value)
        loss = loss + value.pow(2).mean() / 100
    loss = loss + grad(lambda w: (features * w).mean())(weights).pow(2).sum() + hessian(lambda w: (features * w).pow(3).mean())(weights).trace()
    loss = loss + jvp(lambda w: (features * w).tanh().sum(0), (weights,), (weights,))[1].sum() / 10
    loss = loss + vjp(lambda w: features * w, weights)[1](features.detach())[0].sum() / 10 + jacfwd(lambda w: (features * w).mean(0))(weights).sum()
    optimizer.zero_grad()
    loss.backward()
    for name, parameter in live.items():
        show(f"{step} {name}", parameter.grad)
    optimizer.step()
    print(f"step {step} {loss.item():.6f}")

held = {name: parameter.detach() for name, parameter in live.items()}
for name, parameters in (("living", live), ("held", held)):
    gradients, value = grad_and_value(loss_of)(parameters, batch, target)
    show(f"{name} gradient", gradients["0.weight"])
    show(f"{name} value", value)
    each = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, batch, target)
    show(f"{name} for each row", each["0.weight"])
    show(f"{name} of divided rows", vmap(grad(loss_of), in_dims=(None, 0, None))(parameters, model(batch).repeat(1, 2)[:, :8], target[0])["2.weight"])
models = [torch.nn.Linear(8, 3).double() for _ in range(4)]
stacked, buffers = stack_module_state(models)
show("ensemble", vmap(lambda p, b: functional_call(models[0], (p, b), (batch,)))(stacked, buffers))
show("ensemble of features", vmap(lambda p, b: functional_call(models[0], (p, b), (model(batch).repeat(1, 2)[:, :8],)))(stacked, buffers))

# What a transform calls below itself, with its level taken away: backward to what it maps over, and to what it has from outside.
mapped = torch.randn(4, 3, 8, dtype=torch.float64, requires_grad=True)
wanted = target[:, :3]


class Cube(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return 3 * ctx.saved_tensors[0] ** 2 * gradient


def back(name, value, *leaves):
    for leaf in leaves:
        leaf.grad = None
    value.pow(2).sum().backward()
    show(name, value)
    for leaf in leaves:
        show(f"{name} back", leaf.grad)


weight = live["0.weight"]
one = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
each = [torch.nn.Linear(8, 3).double() for _ in range(ROWS)]
stacked, buffers = stack_module_state(each)
gates, states = (torch.randn(2, 24, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
back("mapped", vmap(lambda w: ((batch @ w.t() - wanted) ** 2).mean())(mapped), mapped)
back("mapped in pieces", vmap(lambda w: (batch @ w.t()).tanh().sum(), chunk_size=2)(mapped), mapped)
back("mapped features", vmap(lambda w: (model(batch).repeat(1, 2)[:, :8] @ w.t()).tanh().mean())(mapped), mapped, weight)
back("mapped gradients", vmap(grad(lambda w: ((batch @ w.t()).tanh() - wanted).pow(2).mean()))(mapped), mapped)
back("mapped cells", vmap(lambda w, u: torch.gru_cell(batch, batch, w, u))(gates, states), gates, states)
back("derivative of a parameter", jacrev(lambda w: (batch @ w.t()).tanh().mean(0))(one), one)
back("a model for each row", vmap(lambda p, b, r: functional_call(each[0], (p, b), (r,)))(stacked, buffers, batch), stacked["weight"])
back("a function of its own", grad(lambda t: (Cube.apply(model(batch)) * t).sum())(weights), weight)
show("the same for each row", vmap(grad(lambda r: Cube.apply(r).sum()))(model(batch).detach()))
value, along = torch.func.linearize(lambda w: (batch @ w.t()).tanh().sum(0), one.detach())
show("linearized", along(torch.ones(3, 8, dtype=torch.float64)))
for dim, write in enumerate((lambda row: row.mul_(2), lambda column: column.add_(1))):
    written = model(batch)
    vmap(write, in_dims=dim)(written)
    back(f"written {dim}", written, weight)
