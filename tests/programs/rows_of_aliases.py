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
