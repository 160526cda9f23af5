"""How precisely torch multiplies float32 numbers: its flags for that, read together and restored together.

They depend on each other. ``torch.set_float32_matmul_precision`` sets the flags of oneDNN and of cuBLAS,
``allow_tf32`` sets its value in turn, and setting it back by the same call leaves "ieee" if there was
"none". So techniques that set one of them use this module, and exclude each other.

torch has older words for them (``set_float32_matmul_precision``, ``allow_tf32``), each of which sets several
flags, and newer ones (``fp32_precision``), each of which sets one. torch 2.9 warns of the older.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html (fp32_precision)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

from ...training import NotApplicable

# (oneDNN's products, cuBLAS's) in the newer words, where the older say this
_IN_NEWER_WORDS = {"highest": ("ieee", "ieee"), "high": ("tf32", "tf32"), "medium": ("bf16", "tf32")}


@dataclass(frozen=True)
class Float32Precision:
    """The flags as they were at one moment, by torch's own names."""

    products: str  # highest, high, medium
    onednn_products: str
    onednn_convolutions: str
    cublas_products: str

    @classmethod
    def now(cls, torch: ModuleType) -> Float32Precision:
        """Raises NotApplicable if the script sets them by ``fp32_precision``: torch refuses the older
        calls then.
        """
        backends = torch.backends
        return cls(
            _in_older_words(torch),
            backends.mkldnn.matmul.fp32_precision,
            backends.mkldnn.conv.fp32_precision,
            backends.cuda.matmul.fp32_precision,
        )

    def put_back(self, torch: ModuleType) -> None:
        """Set all flags to what they were."""
        backends = torch.backends
        set_products(torch, self.products)  # first: it sets two of the others
        backends.mkldnn.matmul.fp32_precision = self.onednn_products
        backends.mkldnn.conv.fp32_precision = self.onednn_convolutions
        backends.cuda.matmul.fp32_precision = self.cublas_products


def set_products(torch: ModuleType, products: str) -> None:
    """Set the precision of matrix products: "highest", "high" or "medium"."""
    with older_words():
        torch.set_float32_matmul_precision(products)


def is_at(torch: ModuleType, products: str) -> bool:
    """Whether matrix products still have that precision after it was set. Raises nothing and warns about
    nothing, whatever the script sets: it may be called in every step.
    """
    backends = torch.backends
    now = (backends.mkldnn.matmul.fp32_precision, backends.cuda.matmul.fp32_precision)
    return now == _IN_NEWER_WORDS.get(products)


@contextmanager
def older_words() -> Iterator[None]:
    """Allows torch's older names here: its warning about them is for scripts."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Please use the new API settings to control TF32")
        yield


def _in_older_words(torch: ModuleType) -> str:
    try:
        with older_words():
            return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        raise NotApplicable("the script sets fp32_precision itself, and that stands") from None
