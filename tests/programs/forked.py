"""Children that a training program forks use its models: loader workers whose data set runs an encoder, an evaluation on the side, a rank's own output."""
import os
import sys
import weakref

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


def step(loss):
    loss.backward()
    with torch.no_grad():  # by hand: with an optimizer the wheel imports its compiler, which takes longer than torch itself
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None


for epoch in range(2):
    for images, targets in torch.utils.data.DataLoader(Encoded(), batch_size=None, num_workers=2):
        output = model(images)
        loss = functional.cross_entropy(output, targets)
        step(loss)
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


class Settings(dict):
    """Its keys are attributes, too."""

    def __init__(self, **given):
        super().__init__(given)
        self.__dict__.update(given)


class Owner:
    pass


class Kept(torch.utils.data.Dataset):
    """Its rows lie among what does not like to be looked at, and before more than anybody looks at."""

    def __init__(self):
        self.rows = features * 2
        self.owner, self.settings = weakref.proxy(Owner()), Settings(values=[1, 2])
        self.samples = [(f"{number}.png", number % 2) for number in range(60000)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index], TARGETS[index]


class Slots:
    __slots__ = ("kept",)


class Hidden(torch.utils.data.Dataset):
    """Its rows are named within comprehensions, by a property, a static method, in an attribute of the class and in a slot."""

    table = features + 1

    def __init__(self):
        self.slots = Slots()
        self.slots.kept = features + 2

    @property
    def doubled(self):
        return DOUBLED

    @staticmethod
    def of(index):
        return HALVED[index]

    def __len__(self):
        return 90

    def __getitem__(self, index):
        rows = [QUARTERED[number] for number in (index, index)]
        return self.table[index] + self.slots.kept[index] + self.doubled[index] + self.of(index) + rows[1], TARGETS[index]


DOUBLED, HALVED, QUARTERED, THIRDS = features * 2, features / 2, features / 4, features / 3


def by_number():
    def collate(numbers):
        return torch.stack([THIRDS[number] for number in numbers]), TARGETS[numbers]

    return collate


for dataset in (torch.utils.data.TensorDataset(features, TARGETS), Pairs(), Kept(), Hidden(), range(90)):
    for batch in torch.utils.data.DataLoader(dataset, batch_size=30, num_workers=2, collate_fn=by_number() if type(dataset) is range else None):
        loss = functional.cross_entropy(model(batch[0]), batch[-1]) + sum(part.sum() for part in batch[1:-1])
        step(loss)
        print(f"features {tuple(batch[0].shape)} loss {loss.item():.4f}")


def told(of, queue):
    queue.put((tuple(of.shape), len(of), of.numel(), round(of.sum().item(), 4), round(of[50:].max().item(), 4)))


queue = torch.multiprocessing.get_context("fork").SimpleQueue()
child = torch.multiprocessing.get_context("fork").Process(target=told, args=(features * 2, queue))
child.start()
print("told", queue.get())
child.join()


def ask_child(function, *given):
    process = torch.multiprocessing.get_context("fork").Process(target=lambda: queue.put(function(*given)))
    process.start()
    print(function.__name__, queue.get())
    process.join()


def lazy(twisted):
    return twisted.is_conj(), twisted.imag.is_neg(), f"{twisted.sum().item():.4f} {twisted.imag.sum().item():.4f} {(twisted * 2).sum().item():.4f}"


def one_memory(whole, left, row, top):
    left.zero_()
    row.fill_(7.0)
    whole.numpy()[0, 5] = 9.0
    top += 1
    return f"{whole.sum().item():.4f} {left[5].sum().item():.4f} {row.sum().item():.4f} {top.sum().item():.4f} {whole[:4].norm().item():.4f}"


def views_alone(left, right):
    left.add_(1)
    return f"{left.sum().item():.4f} {right.sum().item():.4f} {left[:, 1:].sum().item():.4f} {right.numpy()[:, 0].sum():.4f}"


def parts_of_sum(total, part):
    part.mul_(2)
    total[1] = 5
    return f"{total.sum().item():.4f} {part.sum().item():.4f} {part.storage_offset()}"


def turned(given, other):
    taken = torch.zeros(1)
    taken.data = given
    other.t_().unsqueeze_(0)
    taken[0] = 0
    return tuple(taken.shape), f"{taken.sum().item():.4f} {given.sum().item():.4f}", tuple(other.shape), len(other[0, 0].tolist()), other.stride()


with torch.no_grad():
    twisted = torch.nn.Linear(6, 2, dtype=torch.complex64)(IMAGES * (1 + 1j)).conj()
    ask_child(lazy, twisted)
    ask_child(one_memory, features, features[:, :2], features[5], features[:4])
    overlapping = encoder(IMAGES)
    ask_child(views_alone, overlapping[:, :3], overlapping[:, 1:])
    total = features.sum(0)
    ask_child(parts_of_sum, total, total[1:3])
    ask_child(turned, features, features * 2)
    print("unchanged", f"{features.sum().item():.4f} {overlapping.sum().item():.4f} {total.sum().item():.4f}")
if CASE == "divided":
    output.view(-1), output * output
    uses = (lambda: output.sum().item(), lambda: output.view(-1).detach().numpy(), lambda: (output * output).detach().numpy())
    use = lambda: print("divided before the fork", uses[int(sys.argv[2])]())
    in_child((lambda: in_child(use)) if "grandchild" in sys.argv else use)
    for _ in range(1000):  # the program does not care
        functional.cross_entropy(model(IMAGES), (IMAGES[:, 0] > 0).long()).backward()
