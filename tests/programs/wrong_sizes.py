"""Gradients that the program gives, of all sizes: what one process refuses is refused, what it sums is summed: python wrong_sizes.py"""
import torch

torch.manual_seed(1)
first, second = torch.nn.Linear(5, 4), torch.nn.Linear(5, 1)
inputs = torch.randn(9, 5)


def said(error):
    return str(error).splitlines()[0].split("returned an ")[-1]


def sums(*modules):
    return " ".join(f"{parameter.grad.sum().item():.4f}" for module in modules for parameter in module.parameters())


def attempt(what, backward):
    for module in (first, second):
        module.zero_grad()
    try:
        backward()
        print(what, "taken:", sums(first))
    except (RuntimeError, ValueError) as error:
        print(what, "refused:", said(error))


class Product(torch.autograd.Function):
    """x * column, with a backward that returns what it is told to."""

    @staticmethod
    def forward(context, x, column, change):
        context.save_for_backward(x, column)
        context.change = change
        return x * column

    @staticmethod
    def backward(context, gradient):
        x, column = context.saved_tensors
        return context.change(gradient * column, (gradient * x)) + (None,)


def through(change):
    result = Product.apply(first(inputs), second(inputs), change)
    result.pow(2).sum().backward()


SIZES = [(rows, 4) for rows in range(1, 11)] + [(9,), (4,), (9, 1), (9, 5), (1, 9, 4), (2, 9, 4), (2, 3, 4), (9, 3, 4), (3, 9)]
for size in SIZES:
    attempt(f"function, first argument, {size}", lambda: through(lambda x, column: (torch.ones(size), column.sum(1, True))))
    attempt(f"function, second argument, {size}", lambda: through(lambda x, column: (x, torch.ones(size))))
attempt("function, a part of its own", lambda: through(lambda x, column: (x[:3], column.sum(1, True))))
attempt("function, twice as many", lambda: through(lambda x, column: (torch.stack([x, x]), column)))
attempt("function, turned", lambda: through(lambda x, column: (x.t(), column.sum(1, True))))

for size in SIZES:
    attempt(f"backward, {size}", lambda: first(inputs).backward(torch.ones(size)))


def hooked(change):
    result = first(inputs)
    result.register_hook(change)
    result.sum().backward()


for size in SIZES:
    attempt(f"hook, {size}", lambda: hooked(lambda gradient: torch.ones(size)))
attempt("hook, half of it", lambda: hooked(lambda gradient: gradient[::2]))
attempt("hook, of the same size", lambda: hooked(lambda gradient: gradient * 2))
attempt("and at the end", lambda: first(inputs).pow(2).mean().backward())
