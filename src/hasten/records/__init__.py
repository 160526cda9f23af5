"""Frozen dataclasses handed between the stages. They import the standard library only, and no other room."""
