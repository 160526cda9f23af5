"""Frozen dataclasses handed between the stages. Standard library only, and nothing of ours is imported."""
