"""Machines and observations on paper, for what techniques decide by."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hasten.records.facts import Facts
from hasten.records.machine import Machine
from hasten.records.observation import Loader, Observation, Optimizer, Root


def machine(**other: Any) -> Machine:
    """An eight-core x86 server with bfloat16 instructions; ``other`` names what differs."""
    usual = Machine(
        system="Linux",
        architecture="x86_64",
        cpu_model="made up",
        logical_cpus=16,
        physical_cores=8,
        quota_cpus=None,
        memory_bytes=64 * 2**30,
        available_bytes=32 * 2**30,
        cpu_flags=("avx2", "avx512f", "avx512_bf16"),
        libc="glibc 2.36",
        python="3.11.7",
        cxx="/usr/bin/g++",
    )
    return replace(usual, **other)


def root(**other: Any) -> Root:
    usual = Root(
        name="made.up.Net",
        parameters=1000,
        dtypes=("float32",),
        devices=("cpu",),
        convolutions=2,
        batch_norm=False,
        dropout=False,
    )
    return replace(usual, **other)


def loader(**other: Any) -> Loader:
    usual = Loader(
        dataset="Pictures",
        samples=1000,
        batch_size=32,
        workers=0,
        iterable=False,
        pin_memory=False,
        training=True,
        default_fetch=True,
        sample_bytes=3072,
    )
    return replace(usual, **other)


def optimizer(**other: Any) -> Optimizer:
    return replace(Optimizer("Adam", parameters=1000, fused=False, can_fuse=True), **other)


def facts(on: Machine | None = None, **other: Any) -> Facts:
    """A CNN trained with Adam from one loader, on the usual machine or ``on`` another."""
    usual = Observation(
        steps=(),
        warmup_steps=0,
        cycle=1,
        roots=(root(),),
        loaders=(loader(),),
        optimizers=(optimizer(),),
        batch_size=32,
        threads=8,
        torch="2.13.0",
        start_seconds=1.0,
        padding=0.0,
    )
    return Facts(on or machine(), replace(usual, **other))
