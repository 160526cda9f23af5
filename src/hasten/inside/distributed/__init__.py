"""Training in several processes. What is here imports torch, and is imported by nobody before torch is."""
