"""hasten: find out why a PyTorch training script is slow here, and train it faster, unchanged.

The command line is the product: ``hasten tune train.py`` and ``hasten run train.py``. Importing this
package does nothing and imports nothing, so a script may import it freely.
"""

__version__ = "0.1.0"
