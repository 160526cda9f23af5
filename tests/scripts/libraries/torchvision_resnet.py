"""ResNet-18 of torchvision on small made-up pictures, augmented by transforms.v2 in the dataset."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18
from torchvision.transforms import v2

CLASSES = 10


class Pictures(Dataset):
    def __init__(self, samples, transform):
        generator = torch.Generator().manual_seed(1)
        self.labels = torch.randint(0, CLASSES, (samples,), generator=generator)
        noise = torch.randint(0, 160, (samples, 3, 24, 24), generator=generator)
        self.pictures = (noise + 9 * self.labels.view(-1, 1, 1, 1)).to(torch.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.transform(self.pictures[index]), self.labels[index]


def main():
    torch.manual_seed(0)
    augment = v2.Compose(
        [
            v2.RandomCrop(24, padding=2),
            v2.RandomHorizontalFlip(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225]),
        ]
    )
    loader = DataLoader(Pictures(16 * 50, augment), batch_size=16, shuffle=True, drop_last=True)
    model = resnet18(num_classes=CLASSES)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)

    step = 0
    for _epoch in range(2):
        model.train()
        for pictures, labels in loader:
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print("step", step, loss.item())
        scheduler.step()


if __name__ == "__main__":
    main()
