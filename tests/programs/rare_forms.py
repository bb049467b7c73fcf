"""Forms that few programs use: targets in bytes, ignored classes that weigh 1/0, packed elements under other sizes, normalisations of nothing and in bfloat16,
dimensions by their names."""
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

torch.manual_seed(1)
images = torch.randn(12, 8)


def tell(what, loss, model):
    model.zero_grad()
    loss.backward()
    print(what, "%.4f" % loss.item(), " ".join("%.4f" % parameter.grad.norm().item() for parameter in model.parameters()))


def bytes_as_targets():
    model = nn.Linear(8, 256)
    targets = torch.arange(150, 162, dtype=torch.uint8)  # 156 is -100 in a byte, 255 is -1
    tell("bytes", functional.cross_entropy(model(images), targets), model)
    tell("all 156", functional.cross_entropy(model(images), torch.full((12,), 156, dtype=torch.uint8)), model)
    targets[::2] = 255
    tell("minus one", functional.cross_entropy(model(images), targets, ignore_index=-1), model)
    tell("weighted", functional.cross_entropy(model(images), targets, torch.linspace(0.5, 2, 256)), model)


def ignored_weight():
    model, targets = nn.Linear(8, 4), torch.arange(12) % 4
    weights = 1 / torch.bincount(targets[targets != 0], minlength=4).float()
    tell("ignored", functional.cross_entropy(model(images), targets, weights, ignore_index=0), model)
    tell("smoothed", functional.nll_loss(model(images).log_softmax(1), targets, weights, ignore_index=0), model)


def other_sizes():
    first, second = nn.LSTM(5, 6), nn.LSTM(6, 4)
    data = torch.randn(4, 4, 5)
    packed, _ = first(pack_padded_sequence(data, [4, 4, 2, 2]))
    sizes = pack_padded_sequence(torch.zeros(3, 4, 5), [3, 3, 3, 3]).batch_sizes  # as many sequences, as many elements
    again, _ = second(PackedSequence(packed.data, sizes))
    padded, _ = pad_packed_sequence(again)
    tell("packed", padded.pow(2).mean(), nn.ModuleList([first, second]))
    print("padded", "%.4f" % pad_packed_sequence(PackedSequence(packed.data, sizes))[0].abs().sum().item())


def nothing_to_normalise():
    layer, norm = nn.Conv1d(3, 4, 1), nn.BatchNorm1d(4)
    hidden = layer(torch.randn(12, 3, 6))
    for length in 0, 2, 4:
        part = norm(hidden[:, :, :length])
        print("of nothing", length, tuple(part.shape), " ".join("%.4f" % mean for mean in norm.running_mean.tolist()))
    print(tuple(nn.BatchNorm1d(0, affine=False)(layer(torch.randn(12, 3, 6))[:, :0]).shape))


def instances_of_nothing():
    layer, norm = nn.Conv2d(3, 4, 1), nn.InstanceNorm2d(4, track_running_stats=True)
    for length in 0, 4:
        part = norm(layer(torch.randn(12, 3, 4, 6))[:, :, :length])
        print("instances", length, tuple(part.shape), " ".join("%.4f" % mean for mean in norm.running_mean.tolist() + norm.running_var.tolist()))
    none = functional.instance_norm(layer(torch.randn(12, 3, 4, 6))[:, :0], torch.zeros(0), torch.zeros(0), use_input_stats=True)
    print("no channels", tuple(none.shape))


def instances_of_many_dimensions():
    """A recurrent layer after it gives gradients that have rows and channels innermost, which libtorch reads in another way of four and five dimensions alone."""
    recurrent = nn.GRU(4, 8, batch_first=True)
    for shape in (4, 6), (2, 2, 6), (2, 2, 2, 3):
        conv = nn.Conv1d(1, 4, 1)
        normalised = functional.instance_norm(conv(torch.randn(6, 1, 24)).view(6, 4, *shape))
        tell(f"instances of {len(shape) + 2}", recurrent(normalised.flatten(2).transpose(1, 2))[0].pow(2).mean(), nn.ModuleList([conv, recurrent]))


def in_half_precision():
    for affine in True, False:
        model = nn.Sequential(nn.Linear(8, 6), nn.BatchNorm1d(6, affine=affine), nn.ReLU(), nn.Linear(6, 3)).to(torch.bfloat16)
        loss = functional.cross_entropy(model(images.to(torch.bfloat16)).float(), torch.arange(12) % 3)
        loss.backward()
        print("bfloat16", "%.2f" % loss.item(), "%.1f" % model[0].weight.grad.float().norm().item(), "%.1f" % model[1].running_var.sum().item())


def rows_of_a_leaf():
    hidden = nn.Linear(8, 4)(images).detach().requires_grad_()
    for i in range(3):
        hidden[i].pow(2).sum().backward()
    print("rows of a leaf", "%.4f" % hidden.grad.norm().item())
    hidden = nn.Linear(8, 4)(images)
    print("rows", " ".join("%.4f" % torch.autograd.grad(hidden[i].pow(2).sum(), hidden, retain_graph=True)[0].norm().item() for i in range(3)))


def complex_sums():
    model = nn.Linear(8, 4)
    hidden = model(images)
    numbers = torch.view_as_complex(hidden.view(12, 2, 2))
    tell("complex", (numbers.sum() + hidden.max()).abs(), model)
    hidden = model(images)
    numbers = torch.view_as_complex(hidden.view(12, 2, 2))
    tell("complex product", (numbers.sum() + numbers.prod()).abs(), model)


def derivatives_of_zeros():
    """The derivative of sgn is a tensor of zeros without memory."""
    model, gate, other = nn.Linear(8, 4), nn.Parameter(torch.randn(4)), nn.Parameter(torch.randn(4))

    def step(name, loss, **options):
        loss.backward(**options)
        print(name, *("none" if p.grad is None else "%.4f" % p.grad.norm().item() for p in (gate, other, model.weight)))

    def loss_of(sign):
        return (model(images) * sign + torch.sgn(other).sum()).pow(2).mean()

    for has_graph in False, True:
        gate.grad = other.grad = model.weight.grad = None
        step("of zeros", loss_of(torch.sgn(gate)), create_graph=has_graph)
        other.grad = None
        gate.grad = gate.grad + 0  # nothing can be added to such a tensor
        step("added", loss_of(torch.sgn(gate)), create_graph=has_graph)
    gate.grad = other.grad = None
    step("of nothing that is divided", torch.sgn(gate).sum())
    try:
        step("to zeros", loss_of(gate))
    except RuntimeError:
        print("nothing is added to zeros")
    gate.grad = other.grad = model.weight.grad = None
    step("afterwards", loss_of(gate))


def left_out():
    hidden = nn.Linear(8, 9)(images).detach().view(12, 3, 3)
    print("left out", "%.4f" % torch.linalg.qr(hidden, mode="r").R.abs().sum().item())


def learned_probability():
    probability, model = nn.Parameter(torch.zeros(4)), nn.Linear(8, 4)
    hidden = model(images)
    tell("learned", (hidden * torch.empty_like(hidden).bernoulli_(torch.sigmoid(probability))).sum(), model)
    print(probability.grad.tolist())


def computed_probability():
    """Of each row, of each element, of rows in another order, of another dimension than the divided one."""
    score, model = nn.Linear(8, 1), nn.Linear(8, 4)
    single, square = nn.Linear(8, 1), nn.Linear(8, 12)
    models = nn.ModuleList([score, model])
    for gate in (
        lambda: score(images),
        lambda: score(images).expand(12, 4),
        lambda: score(images).flip(0),
        lambda: score(images)[:, 0].view(12, 1),
    ):
        hidden = model(images)
        kept = torch.empty_like(hidden).bernoulli_(torch.sigmoid(gate()))
        print(kept.sum().item(), kept.requires_grad)
        tell("gated", (hidden * kept).pow(2).sum() + (hidden * kept * gate()).mean(), models)
    hidden = square(images)  # 12 x 12
    kept = torch.empty_like(hidden).bernoulli_(torch.sigmoid(single(images)[:, 0]))
    tell("columns", (hidden * kept).pow(2).sum() + single(images).sum(), nn.ModuleList([single, square]))
    hidden = square(images)
    kept = torch.empty_like(hidden.t()).bernoulli_(torch.sigmoid(single(images)[:, 0]))
    tell("turned", (hidden * kept.t()).pow(2).sum() + single(images).sum(), nn.ModuleList([single, square]))


@torch.jit.script
def joined(hidden: torch.Tensor, other: torch.Tensor, i: int):
    parts = [hidden, other]
    return torch.cat(parts, 1), parts[i]


@torch.jit.script
def grown(first: torch.Tensor, weight: torch.Tensor):
    features = [first]
    for i in range(3):
        features.append(torch.cat(features, 1).mm(weight[: features[0].size(1) + 4 * i]))
    return torch.cat(features, 1)


def lists_of_scripts():
    model = nn.Linear(8, 4)
    wide, again = joined(model(images), torch.arange(12.0).view(12, 1), 1)
    print("lists", tuple(again.shape), again.sum().item(), "%.4f" % wide.sum().item())
    tell("grown", grown(model(images), torch.linspace(-1, 1, 64).view(16, 4)).pow(2).mean(), model)
    tell("grown from whole", (grown(images, torch.linspace(-1, 1, 80).view(20, 4)).sum(1, keepdim=True) * model(images)).mean(), model)


def named_dimensions():
    if not hasattr(torch.Tensor, "refine_names"):  # libtorch 2.13
        return
    model, targets = nn.Linear(8, 1), torch.linspace(-1, 1, 12)
    named = model(images).refine_names("N", "C")
    squeezed = named.squeeze("C")
    print(squeezed.names, tuple(squeezed.shape), "%.4f %.4f" % (named.sum("N").item(), named.mean("C").rename(None).sum().item()))
    tell("named", (squeezed.rename(None) - targets).pow(2).mean(), model)


bytes_as_targets()
ignored_weight()
other_sizes()
nothing_to_normalise()
instances_of_nothing()
instances_of_many_dimensions()
in_half_precision()
rows_of_a_leaf()
complex_sums()
derivatives_of_zeros()
left_out()
learned_probability()
computed_probability()
lists_of_scripts()
named_dimensions()

# of the meta device: sizes alone
hidden = torch.nn.Linear(6, 3)(torch.randn(9, 6)).detach()
sizes, empty = hidden.to("meta"), torch.empty_like(hidden, device="meta")
for made in (sizes[0], sizes @ sizes.t(), empty.max(), sizes.sum(0).abs(), sizes.t() @ empty, sizes.sort(0)[0], sizes.softmax(0), sizes.std(), empty.clone()):
    print(made.device, tuple(made.shape), made.stride(), end="; ")
print(tuple(sizes.shape))
