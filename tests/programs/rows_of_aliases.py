# Rows are taken one after the other from tensors that are each another one of the same memory (h.detach(), h.data), kept, written, and read again
# (tests/rules_b.bats).
import torch

torch.manual_seed(0)
convolution = torch.nn.Conv2d(1, 16, 3, padding=1)
images = torch.randn(33, 1, 16, 16)
with torch.no_grad():
    for step in range(2):
        out = convolution(images)
        rows = [out.detach()[i] for i in range(len(out))]
        print(f"{sum(row.sum().item() for row in rows):.2f}")
        rows[3].zero_()
        print(f"{out.sum().item():.2f} {out.data[3].abs().sum().item():.2f} {out.detach()[4].sum().item():.3f}")
        out.mul_(2)
        print(f"{rows[5].sum().item():.3f} {out[5].sum().item():.3f} {rows[3].sum().item():.3f}")
        turned = out.detach().transpose(1, 2)
        print(f"{turned[7, 2].sum().item():.3f} {out.detach()[7, :, 2].sum().item():.3f}")

# what is written counts for autograd as it does in one process: h.detach() counts with h, h.data for itself
layer = torch.nn.Linear(6, 4)
inputs = torch.randn(16, 6)
for read, written in ("data", "data"), ("data", "detach"), ("detach", "data"), ("detach", "detach"):
    alias = {"data": lambda tensor: tensor.data, "detach": lambda tensor: tensor.detach()}
    layer.zero_grad()
    result = layer(inputs)
    loss = (result * result).sum()
    seen = alias[read](result)[0].sum().item()
    alias[written](result)[3].zero_()
    try:
        loss.backward()
        print(f"{read} {written} {seen:.3f} {layer.weight.grad.abs().sum().item():.2f}")
    except RuntimeError as error:
        print(f"{read} {written} {seen:.3f} {str(error)[:60]}")

# rows of one batch that are gone before the next
for batch in range(3):
    with torch.no_grad():
        print(f"{sum(float(row.numpy()[0]) for row in layer(torch.randn(500, 6) + batch)):.2f}")
