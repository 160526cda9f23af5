"""Fashion-MNIST's 10,000 pictures for testing, as the scripts next to this file train on them."""

import gzip

import numpy as np
import torch

from hasten import examples

DATA = examples.path("fashion_cnn").parent / "data" / "fashion-mnist"


def pictures_and_labels():
    """(10000, 1, 28, 28), normalised, and (10000,)."""
    with gzip.open(DATA / "t10k-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(DATA / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    pictures = (torch.from_numpy(images.copy()).float() / 255 - 0.286) / 0.353
    return pictures, torch.from_numpy(labels.copy()).long()
