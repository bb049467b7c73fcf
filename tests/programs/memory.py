"""Looks at the memory of what a layer computes, as libraries do that are given an address, and writes to it."""
import copy
import ctypes
import gc
import io

import torch

torch.manual_seed(1)
rows = 23
layer = torch.nn.Linear(6, 3)
images, targets = torch.randn(rows, 6), torch.arange(rows) % 3


def show(name, tensor):
    values = tensor.detach().double()
    print(f"{name} {tuple(tensor.shape)} {values.norm().item():.5f} {values.sum().item():.5f} {values.reshape(-1)[-1].item():.5f}")


def at_address(tensor, kind=ctypes.c_float):
    return (kind * tensor.numel()).from_address(tensor.data_ptr())


hidden = layer(images).detach()
print("address", f"{sum(at_address(hidden)):.5f}", [f"{value:.5f}" for value in at_address(hidden)[-3:]])
print("stays", hidden.data_ptr() == hidden.data_ptr(), hidden.storage().data_ptr() == hidden.data_ptr())
at_address(hidden)[20 * 3 + 1] = 7
show("written", hidden)
show("row", hidden[20])
row = hidden[20]
at_address(hidden)[20 * 3] = 5
show("row", row)
row.add_(1)
at_address(row)[2] = 4
print("row", [f"{value:.5f}" for value in at_address(hidden)[59:63]])
array = hidden.numpy()
array[22] = 1
hidden.mul_(2)
print("array", f"{float(array.sum()):.5f}")
print("storage", len(hidden.storage()), f"{float(sum(hidden.storage())):.4f}", hidden.storage_offset(), hidden.stride())
show("deepcopy", copy.deepcopy(hidden))
file = io.BytesIO()
torch.save(hidden, file)
file.seek(0)
show("saved", torch.load(file))
show("from_numpy", torch.from_numpy(hidden.numpy()))
show("dlpack", torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(hidden)))
print("list", [f"{value:.5f}" for value in hidden.tolist()[-1]])
print("half", list(at_address(layer(images).detach().to(torch.bfloat16), ctypes.c_uint16))[-3:])
columns = layer(images).detach()[:, 1:]
print("columns", f"{ctypes.c_float.from_address(columns.data_ptr() + 4 * 22 * columns.stride(0)).value:.5f}")
loss = torch.nn.functional.cross_entropy(layer(images), targets)
print("loss", f"{at_address(loss.detach())[0]:.5f}", f"{float(loss.detach().numpy()):.5f}")
loss.backward()
show("gradient", layer.weight.grad)


def read_by_a_backward(written):
    """What a graph has kept of a tensor, but for the row that it has kept, is written through a pointer or an array before the backward reads it."""
    factors, scale = torch.nn.Parameter(torch.ones(3)), torch.arange(1.0, 4.0)
    hidden = layer(images).detach()
    products = (hidden * factors).sum() + (hidden[2] * factors * scale).sum()
    written(hidden)
    products.backward()
    show(written.__name__, factors.grad)


def through_its_address(hidden):
    at_address(hidden)[60:69] = [3.0] * 9


def through_an_array(hidden):
    hidden.numpy()[:2] = 4


def through_an_array_of_a_row(hidden):
    hidden[5].numpy()[:] = 5


for written in [through_its_address, through_an_array, through_an_array_of_a_row]:
    read_by_a_backward(written)

alive = []
for _ in range(6):
    hidden = layer(images)
    for row in hidden:
        row.tolist()
    gc.collect()
    alive.append(sum(type(known) is torch.Tensor for known in gc.get_objects()))
print("rows that were looked at stay in memory:", alive[-1] > alive[1])

# the second part of a sum begins where it does, also once its memory was looked at
total = layer(images).detach().sum(0)
part = total[1:]
part.numpy(), part.data_ptr()
begin = part.storage_offset()
print(begin, [f"{value:.4f}" for value in total.as_strided((2,), (1,), begin).tolist()])
