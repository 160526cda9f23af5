"""How precisely torch multiplies float32 numbers: its flags for that, read together and put back together.

They depend on each other. ``torch.set_float32_matmul_precision`` sets the flags of oneDNN and of cuBLAS,
``allow_tf32`` sets its value in turn, and setting it back by the same call leaves "ieee" where there was
"none". So techniques that set one of them use this module, and exclude each other.

Source: https://docs.pytorch.org/docs/stable/notes/cuda.html (fp32_precision)
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType

from ...training import NotApplicable


@dataclass(frozen=True)
class Float32Precision:
    """The flags as they were at one moment, by torch's own names."""

    products: str  # highest, high, medium
    onednn_products: str
    onednn_convolutions: str
    cublas_products: str

    @classmethod
    def now(cls, torch: ModuleType) -> Float32Precision:
        """Raises NotApplicable where the script sets them by ``fp32_precision``: torch refuses the older
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
        backends = torch.backends
        torch.set_float32_matmul_precision(self.products)  # first: it sets two of the others
        backends.mkldnn.matmul.fp32_precision = self.onednn_products
        backends.mkldnn.conv.fp32_precision = self.onednn_convolutions
        backends.cuda.matmul.fp32_precision = self.cublas_products


def is_at(torch: ModuleType, products: str) -> bool:
    """Whether products of matrices are still at that precision. Raises nothing, whatever the script sets."""
    try:
        return bool(torch.get_float32_matmul_precision() == products)
    except RuntimeError:
        return False


def _in_older_words(torch: ModuleType) -> str:
    try:
        return str(torch.get_float32_matmul_precision())
    except RuntimeError:
        raise NotApplicable("the script sets fp32_precision itself, and that stands") from None
