"""Losses whose tensors say nothing of the rows that they were computed from: only their graphs lead back. And losses computed from parameters alone while such
graphs live."""
import torch

torch.manual_seed(3)
batch = torch.randn(13, 6)
model, other = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.05)


class ByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return torch.from_numpy(values.detach().numpy() ** 2)

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return torch.from_numpy(2 * values.numpy() * gradient.numpy())


class LossByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(context, values):
        context.save_for_backward(values)
        return torch.tensor(float((values.detach().numpy() ** 2).mean()))

    @staticmethod
    def backward(context, gradient):
        (values,) = context.saved_tensors
        return gradient * 2 * values / values.numel()


def losses_in_a_buffer():
    buffer = torch.zeros(2)
    buffer[0] = LossByNumpy.apply(model(batch))
    buffer[1] = LossByNumpy.apply(model(batch) + 1)
    return buffer.sum()


def piece_by_piece():
    buffer, ordered = torch.zeros(13, 4), model(batch).cumsum(0)
    for row in range(13):
        buffer[row] = ordered[12 - row]
    return buffer.pow(2).sum()


def columns():
    buffer, ordered = torch.ones(4, 13), model(batch).cumsum(0)
    for column in range(3):
        buffer[column].copy_(ordered[:, column])
    return (buffer @ buffer.t()).logsumexp((0, 1))


def by_numpy():
    return ByNumpy.apply(model(batch)).mean() + ByNumpy.apply(model(batch).cumsum(0)).mean()


def nested():
    buffer = torch.zeros(3)
    for index, part in enumerate([piece_by_piece(), columns(), by_numpy()]):
        buffer[index] = part
    return buffer.norm()


def alone():
    return other.weight.pow(2).sum() + model.bias.sum()


def joined():
    return alone() * piece_by_piece().log()


alive = []
for loss_of in [alone, losses_in_a_buffer, alone, piece_by_piece, alone, columns, by_numpy, nested, alone, joined, alone]:
    optimizer.zero_grad()
    loss = loss_of()
    loss.backward(retain_graph=True)
    alive.append(loss)
    gradients = [p.grad if p.grad is not None else torch.zeros(()) for p in [*model.parameters(), *other.parameters()]]
    print(loss_of.__name__, f"{loss.item():.4f}", [f"{gradient.norm().item():.4f}" for gradient in gradients])
    optimizer.step()
print([f"{gradient.sum().item():.4f}" for gradient in torch.autograd.grad(piece_by_piece() + alone(), [model.weight, other.weight])])
