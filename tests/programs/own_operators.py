"""Operators of the program's own (torch.library), whose code looks at divided tensors that are no arguments, and whose derivatives are not linear."""
import torch


def main():
    torch.manual_seed(0)
    model, batch = torch.nn.Linear(6, 5), torch.randn(13, 6)
    statistic = model(batch).detach().mean(0)

    @torch.library.custom_op("tests::scale", mutates_args=())
    def scale(values: torch.Tensor) -> torch.Tensor:
        return values * statistic

    @torch.library.custom_op("tests::same", mutates_args=())
    def same(values: torch.Tensor) -> torch.Tensor:
        return values.clone()

    @torch.library.custom_op("tests::mean_and_rows", mutates_args=())
    def mean_and_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return values.mean(0), torch.nn.functional.linear(values, model.weight.detach().t())

    same.register_autograd(lambda context, gradient: gradient.clamp(-0.01, 0.01))
    print(f"scaled {scale(model(batch).detach()).sum().item():.5f} {scale(model.bias.detach()).sum().item():.5f} {scale(batch[:, :5]).sum().item():.5f}")
    for result in mean_and_rows(model(batch).detach()):
        print("two", tuple(result.shape), f"{result.sum().item():.5f}")
    (same(model(batch)).mean(0) * model(batch.flip(0))).pow(2).sum().backward()
    print(f"rows {model.weight.grad.norm().item():.5f} {model.bias.grad.norm().item():.5f}")
    model.zero_grad()
    torch.nn.functional.linear(batch, same(model.weight), model.bias).pow(2).mean().backward()
    print(f"weights {model.weight.grad.norm().item():.5f} {model.bias.grad.norm().item():.5f}")


if hasattr(torch.library, "custom_op"):  # of 2.4
    main()
else:
    print("no operators\nof the program's own")
