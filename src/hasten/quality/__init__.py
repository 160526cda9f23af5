"""Whole trainings with and without a plan: is the quality of the model held?"""
