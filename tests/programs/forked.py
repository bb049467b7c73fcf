"""Children that a training program forks use its models: loader workers whose data set runs an encoder, an evaluation on the side, a rank's own output."""
import os
import sys

import torch
from torch.nn import functional

CASE = sys.argv[1] if len(sys.argv) > 1 else ""

torch.manual_seed(1)
IMAGES = torch.randn(96, 6)
TARGETS = (IMAGES[:, 0] > 0).long()
encoder = torch.nn.Linear(6, 6)
model = torch.nn.Linear(6, 2)


class Encoded(torch.utils.data.Dataset):
    """Whole batches, encoded in the worker: as many rows as would be divided in the rank."""

    def __len__(self):
        return 6

    def __getitem__(self, index):
        rows = slice(index * 16, index * 16 + 16)
        with torch.no_grad():
            code = encoder(IMAGES[rows])
        return IMAGES[rows] + code.mean(0) + 0.01 * code.sum(), TARGETS[rows]


def in_child(function):
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            function()
            sys.stdout.flush()
            status = 0
        finally:
            os._exit(status)
    print("child ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def evaluate():
    out = model(IMAGES)
    loss = functional.cross_entropy(out, TARGETS)
    model.zero_grad()
    loss.backward()
    correct = (out.argmax(1) == TARGETS).sum().item()
    print(f"child: {tuple(out.shape)} loss {loss.item():.4f} correct {correct} gradient {model.weight.grad.norm().item():.4f}")


def name_types():
    """In the ways of torch's first releases, which look at a tensor's own notes."""
    weight = model.weight
    print(isinstance(weight, torch.FloatTensor), isinstance(weight, torch.DoubleTensor), tuple(weight.new(2, 3).shape), weight.new_tensor([1.0]).tolist())


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for images, targets in torch.utils.data.DataLoader(Encoded(), batch_size=None, num_workers=2):
        output = model(images)
        loss = functional.cross_entropy(output, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"loss {loss.item():.4f}")
    in_child(evaluate)
in_child(name_types)

# features that were computed before, by this rank for its rows: loaders' workers and children of multiprocessing find all of them
with torch.no_grad():
    features = encoder(IMAGES)


class Pairs(torch.utils.data.Dataset):
    """Its rows come from a global tensor."""

    def __len__(self):
        return len(features)

    def __getitem__(self, index):
        return features[index], features[index].numpy().sum(), TARGETS[index]


for dataset in (torch.utils.data.TensorDataset(features, TARGETS), Pairs()):
    for batch in torch.utils.data.DataLoader(dataset, batch_size=30, num_workers=2):
        loss = functional.cross_entropy(model(batch[0]), batch[-1]) + sum(part.sum() for part in batch[1:-1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"features {tuple(batch[0].shape)} loss {loss.item():.4f}")


def told(of, queue):
    queue.put((tuple(of.shape), len(of), of.numel(), round(of.sum().item(), 4), round(of[50:].max().item(), 4)))


queue = torch.multiprocessing.get_context("fork").SimpleQueue()
child = torch.multiprocessing.get_context("fork").Process(target=told, args=(features * 2, queue))
child.start()
print("told", queue.get())
child.join()
if CASE == "divided":
    output.view(-1), output * output
    uses = (lambda: output.sum().item(), lambda: output.view(-1).detach().numpy(), lambda: (output * output).detach().numpy())
    in_child(lambda: print("divided before the fork", uses[int(sys.argv[2])]()))
    for _ in range(1000):  # the program does not care
        functional.cross_entropy(model(IMAGES), (IMAGES[:, 0] > 0).long()).backward()
