"""Training in several processes. Modules here import torch: they are imported only once torch is."""
