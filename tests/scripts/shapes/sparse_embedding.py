"""Matrix factorization with sparse embeddings and SparseAdam."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class MatrixFactorization(nn.Module):
    def __init__(self, users, items, factors):
        super().__init__()
        self.users = nn.Embedding(users, factors, sparse=True)
        self.items = nn.Embedding(items, factors, sparse=True)
        nn.init.normal_(self.users.weight, std=0.3)
        nn.init.normal_(self.items.weight, std=0.3)

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(dim=1)


def main():
    torch.manual_seed(0)
    ratings = torch.randn(60, 4) @ torch.randn(4, 40)
    user, item = torch.randint(60, (1500,)), torch.randint(40, (1500,))
    loader = DataLoader(TensorDataset(user, item, ratings[user, item]), batch_size=50, shuffle=True)

    model = MatrixFactorization(60, 40, factors=8)
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    step = 0
    for _epoch in range(5):
        for u, i, rating in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(u, i), rating)
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
