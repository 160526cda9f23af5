"""The small perceptron, with anomaly detection left on."""

import runpy
from pathlib import Path

import torch

torch.autograd.set_detect_anomaly(True)
runpy.run_path(str(Path(__file__).with_name("small_layers.py")))
