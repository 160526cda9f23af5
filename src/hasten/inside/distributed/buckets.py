"""Gradients packed into flat tensors, so that few collectives reduce many of them.

As in DDP they are in the reverse order of the parameters: a backward pass makes them in about that order. The
first bucket is small, so that something can be sent early.

Source: https://arxiv.org/abs/2006.15704 (Li et al., PyTorch Distributed), 3.2.3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

FIRST_BYTES = 2**20
BYTES = 25 * 2**20


@dataclass(frozen=True)
class Bucket:
    """``members``: numbers of parameters; ``views``: the part of ``flat`` for each of them."""

    members: list[int]
    views: list[torch.Tensor]
    flat: torch.Tensor


class Buckets:
    """Buckets for all ``parameters``, each in one bucket with others of its dtype and device."""

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self.parameters = list(parameters)
        self.identity = identity_of(parameters)
        self.all: list[Bucket] = []
        self.bucket_of: dict[int, int] = {}  # parameter's number -> bucket's
        self.view_of: dict[int, torch.Tensor] = {}
        for group in self._groups():
            self._add(group)

    def _groups(self) -> list[list[int]]:
        """Parameters that will share a bucket, by number."""
        groups: list[list[int]] = []
        open_groups: dict[tuple[torch.dtype, torch.device], tuple[list[int], int]] = {}
        for number in reversed(range(len(self.parameters))):
            parameter = self.parameters[number]
            kind = (parameter.dtype, parameter.device)
            group, used = open_groups.get(kind, ([], 0))
            more = parameter.numel() * parameter.element_size()
            limit = FIRST_BYTES if not groups or group is groups[0] else BYTES
            if not group or used + more > limit:
                group, used = [], 0
                groups.append(group)
            group.append(number)
            open_groups[kind] = (group, used + more)
        return groups

    def _add(self, members: list[int]) -> None:
        first = self.parameters[members[0]]
        sizes = [self.parameters[number].numel() for number in members]
        flat = torch.zeros(sum(sizes), dtype=first.dtype, device=first.device)
        parts = zip(members, torch.split(flat, sizes), strict=True)
        views = [part.view(self.parameters[number].shape) for number, part in parts]
        for number, view in zip(members, views, strict=True):
            self.bucket_of[number] = len(self.all)
            self.view_of[number] = view
        self.all.append(Bucket(members, views, flat))


def identity_of(parameters: Sequence[torch.Tensor]) -> list[tuple[object, ...]]:
    """Equal as long as the same buckets can be used."""
    return [(id(p), p.shape, p.dtype, p.device) for p in parameters]
