"""Gradients large enough to lie in memory that all ranks see, and what programs do with such: accumulate, keep, share, write, hand to children."""
import os
import sys

import torch
from torch.nn import functional

KEEP = "keep" in sys.argv[1:]  # zero_grad() leaves zeros

torch.manual_seed(1)
IMAGES = torch.randn(96, 128)
TARGETS = (IMAGES[:, 0] > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(128, 160), torch.nn.Tanh(), torch.nn.Linear(160, 160), torch.nn.Tanh(), torch.nn.Linear(160, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
WEIGHT, MIDDLE = model[0].weight, model[2].weight


def zero():
    optimizer.zero_grad(set_to_none=not KEEP)


def loss_of(rows):
    return functional.cross_entropy(model(IMAGES[rows]), TARGETS[rows])


def show(word):
    sums = [f"{p.grad.abs().sum().item():.5f}" for p in model.parameters() if p.grad is not None]
    print(word, *sums, flush=True)


def step(word):
    show(word)
    optimizer.step()


def in_child(function):
    """Runs it in a child; the rank goes on with another step meanwhile, and only then the child looks."""
    ready, go = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(go)
            os.read(ready, 1)
            function()
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    zero()
    loss_of(slice(0, 32)).backward()
    optimizer.step()
    os.close(go)
    os.close(ready)
    print("child ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        return IMAGES[index], TARGETS[index]


for epoch in range(2):  # each epoch forks workers while there are gradients
    for images, targets in torch.utils.data.DataLoader(Images(), batch_size=24, num_workers=2):
        zero()
        functional.cross_entropy(model(images), targets).backward()
        step("workers")

zero()
for part in range(3):  # micro-batches
    (loss_of(slice(32 * part, 32 * part + 32)) / 3).backward()
    show("accumulated")
torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
step("clipped")

kept = WEIGHT.grad  # the program's own, from here on
zero()
loss_of(slice(0, 48)).backward()
step("kept")
print("is kept", kept is WEIGHT.grad, f"{kept.abs().sum().item():.5f}")

loss_of(slice(48, 96)).backward()  # into what is there
WEIGHT.grad[:, :16] = 1.0
loss_of(slice(0, 32)).backward()
step("written")

in_child(lambda: show("child sees"))
show("rank goes on")


def write_in_child():
    for parameter in model.parameters():
        parameter.grad.fill_(5.0)
    show("child writes")


in_child(write_in_child)
show("rank goes on")
zero()
loss_of(slice(0, 32)).backward()
in_child(lambda: (loss_of(slice(0, 32)).backward(), show("child accumulates")))
step("after")

pair = torch.nn.Linear(160, 160), torch.nn.Linear(160, 160)  # two parameters with one memory for gradients
common = torch.zeros(160, 160)
for layer in pair:
    layer.weight.grad = common
hidden = model[1](model[0](IMAGES))
(pair[0](hidden).square().mean() + 2 * pair[1](hidden).square().mean()).backward()
print("common", f"{common.abs().sum().item():.5f}", pair[0].weight.grad is common)
(pair[0](hidden.detach()).square().mean() + 2 * pair[1](hidden.detach()).square().mean()).backward()
print("common", f"{common.abs().sum().item():.5f}", pair[1].weight.grad is common)

zero()
loss_of(slice(0, 32)).backward()
factor = torch.ones((), requires_grad=True)
product = (factor * MIDDLE.grad.detach() * factor).sum()  # saves the gradient's memory for its backward
loss_of(slice(32, 64)).backward()
try:
    product.backward()
    print("the gradient was not written")
except RuntimeError as error:
    print("modified" in str(error))

transposed = torch.nn.Parameter(torch.randn(160, 200).t())  # a gradient in another layout than the accumulated one
for round_ in range(2):
    functional.linear(model[1](model[0](IMAGES)), transposed).square().mean().backward()
    print("transposed", f"{transposed.grad.abs().sum().item():.5f}", transposed.grad.stride())
half = torch.nn.Linear(160, 200).double()
for round_ in range(3):
    half(model[1](model[0](IMAGES)).double()).square().mean().backward()
    print("double", f"{half.weight.grad.sum().item():.9f}")
turned = torch.nn.Linear(160, 160)
turned.weight.grad = torch.zeros(160, 160).t()  # the program's own, in another layout
for round_ in range(2):
    turned(model[1](model[0](IMAGES))).square().mean().backward()
    print("turned", *[f"{x:.6f}" for x in turned.weight.grad[0, :4].tolist()], turned.weight.grad.stride())

parts, other = [torch.nn.Parameter(torch.randn(64, 128) * 0.1) for _ in range(3)], torch.nn.Linear(128, 192)
for round_ in range(3):  # three gradients in the memory of one, after forks; the first begins anew each time
    (functional.linear(IMAGES, torch.cat(parts)).tanh().square().mean() + other(IMAGES).square().mean()).backward()
    parts[0].grad.zero_()
    for batch in torch.utils.data.DataLoader(IMAGES, batch_size=48, num_workers=1):
        pass
    print("joined", *[f"{part.grad.abs().sum().item():.5f}" for part in parts])

SQUARE = 128 * 128
overlapping = [torch.nn.Parameter(torch.randn(128, columns) * 0.1) for columns in (256, 256, 128)]
flat = torch.zeros(5 * SQUARE)
flat[: SQUARE // 2], flat[3 * SQUARE : 4 * SQUARE], flat[2 * SQUARE : 2 * SQUARE + SQUARE // 2] = 1, 1, 3
for parameter, begin in zip(overlapping, (0, SQUARE // 2, SQUARE)):
    parameter.grad = flat[begin : begin + parameter.numel()].view_as(parameter)
(loss_of(slice(0, 96)) + sum((IMAGES @ parameter).tanh().square().mean() for parameter in overlapping)).backward()
print("overlapping", f"{flat.abs().sum().item():.4f}")

halves = torch.cat([torch.zeros(48, 1), torch.ones(48, 1)])
for size, turned in ((9, False), (9, True), (128, False), (128, True)):  # one memory of zeros for two, to which some ranks' rows add nothing
    first, second, common = torch.nn.Parameter(torch.ones(size, 128)), torch.nn.Parameter(torch.ones(size, 128)), torch.zeros(size, 128)
    for round_ in range(2):
        first.grad = second.grad = common.zero_()
        losses = [(IMAGES[:, :size] @ first).square().mean(), ((IMAGES[:, :size] @ second) * halves).square().mean()]
        (losses[turned] + losses[not turned]).backward()
        print("zeros", f"{common.abs().sum().item():.5f}", first.grad is common, second.grad is common)


def forget_in_child():
    model.zero_grad(set_to_none=True)
    loss_of(slice(0, 32)).backward()
    show("child forgets")


in_child(forget_in_child)
