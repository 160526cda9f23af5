"""A recommender that draws, for each epoch, items that its users did not choose."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

USERS, ITEMS, DRAWN = 50, 80, 3


class Choices(Dataset):
    def __init__(self, chosen):
        self.chosen = chosen
        self.known = {(user, item) for user, item in chosen}
        self.rows, self.labels = [], []

    def draw_negatives(self):
        drawn = []
        for user, _ in self.chosen:
            for _ in range(DRAWN):
                item = np.random.randint(ITEMS)
                while (user, item) in self.known:
                    item = np.random.randint(ITEMS)
                drawn.append([user, item])
        self.rows = [*self.chosen, *drawn]
        self.labels = [1.0] * len(self.chosen) + [0.0] * len(drawn)

    def __len__(self):
        return (DRAWN + 1) * len(self.chosen)

    def __getitem__(self, index):
        user, item = self.rows[index]
        return user, item, self.labels[index]


class Factors(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.users, self.items = nn.Embedding(USERS, width), nn.Embedding(ITEMS, width)
        self.predict = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, user, item):
        return self.predict(torch.cat([self.users(user), self.items(item)], dim=-1)).view(-1)


def main():
    torch.manual_seed(0)
    np.random.seed(0)
    chosen = [[int(np.random.randint(USERS)), int(np.random.randint(ITEMS))] for _ in range(300)]
    loader = DataLoader(Choices(chosen), batch_size=24, shuffle=True)
    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    loss_function = nn.BCEWithLogitsLoss()
    step = 0
    for _ in range(3):
        loader.dataset.draw_negatives()
        for user, item, label in loader:
            optimizer.zero_grad()
            loss = loss_function(model(user, item), label.float())
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step} {loss.item()}")


if __name__ == "__main__":
    main()
