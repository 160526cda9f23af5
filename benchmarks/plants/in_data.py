"""What makes a training wait for its data."""

from __future__ import annotations

from .plant import IMPORTS, ITEM, LOADER, MADE, Plant

_SMOOTH = """\
        picture = self.pictures[index]
        for _ in range(TIMES):
            picture = nn.functional.avg_pool2d(picture, 3, 1, 1)
        picture = (picture - picture.mean()) / picture.std()
"""
_DECODE = """\
        decoded = Image.open(io.BytesIO(self.files[index])).convert("L").resize((28, 28))
        picture = torch.tensor(list(decoded.tobytes()), dtype=torch.float32).view(1, 28, 28) / 255
"""
_ENCODE = f"""{MADE}\
        self.files = []
        for picture in self.pictures:
            file = io.BytesIO()
            pixels = (picture[0] * 127).byte().numpy()
            Image.fromarray(pixels).resize((224, 224)).save(file, "png")
            self.files.append(file.getvalue())
"""
_COLLATE = '''\
def collate(samples: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures as rows of whole numbers, 0 to 255, and back."""
    pictures = [[round(255 * float(pixel)) for pixel in picture.flatten()] for picture, _ in samples]
    labels = [int(label) for _, label in samples]
    return torch.tensor(pictures).view(-1, 1, 28, 28) / 255, torch.tensor(labels)


def evaluate('''
_ONE_WORKER = "batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)"
_FEW = (("Pictures(1280, 1)", "Pictures(640, 1)"),)

PLANTS = (
    Plant("slow_samples", "pictures", ("input",), ((ITEM, _SMOOTH.replace("TIMES", "20")),), both=_FEW),
    Plant(
        "slow_decode",
        "pictures",
        ("input",),
        ((IMPORTS, f"import io\n\n{IMPORTS}from PIL import Image\n"), (ITEM, _DECODE), (MADE, _ENCODE)),
        both=_FEW,
    ),
    Plant(
        "slow_collate",
        "pictures",
        ("input",),
        (
            ("def evaluate(", _COLLATE),
            (LOADER, "batch_size=32, shuffle=True, collate_fn=collate)"),
        ),
        both=_FEW,
    ),
    Plant(
        "too_few_workers",
        "pictures",
        ("input",),
        ((ITEM, _SMOOTH.replace("TIMES", "60")), (LOADER, _ONE_WORKER)),
        without=((LOADER, _ONE_WORKER),),
        both=_FEW,
    ),
)
