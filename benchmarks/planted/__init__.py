"""Trainings without a fault, as tutorials write them. ``benchmarks.plants`` plants one into each."""
