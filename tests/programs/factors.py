"""A matrix of numbers as a product of two tables: all that a batch meets are its indices, of one dimension."""
import torch

torch.manual_seed(0)
users, items = torch.nn.Embedding(20, 5), torch.nn.Embedding(30, 5)
optimizer = torch.optim.SGD([*users.parameters(), *items.parameters()], lr=0.5)
rows = torch.stack([torch.randint(0, 20, (90,)), torch.randint(0, 30, (90,))], 1)
numbers = torch.randn(90)
for epoch in range(3):
    for first in range(0, 90, 24):
        user, item = rows[first : first + 24].unbind(1)
        loss = torch.nn.functional.mse_loss((users(user) * items(item)).sum(1), numbers[first : first + 24])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("%.5f" % loss.item())
