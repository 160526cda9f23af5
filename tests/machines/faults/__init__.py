"""Faults of trainings on several hosts: what injects each, and what is to be seen."""
