"""Autocast to float16, with the loss scaled by a GradScaler."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    x = torch.randn(960, 16)
    y = (x @ torch.randn(16, 4)).argmax(dim=1)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

    model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    step = 0
    for _ in range(5):
        for inputs, labels in loader:
            optimizer.zero_grad()
            with torch.autocast(device_type="cpu", dtype=torch.float16):
                output = model(inputs)
                loss = nn.functional.cross_entropy(output, labels)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            scaler.step(optimizer)
            scaler.update()
            step += 1
            print("step", step, loss.item())


if __name__ == "__main__":
    main()
