"""Means for ranks to speak with each other, one a module. Each is an ``Engine``; ``CollectiveGroup`` makes a
process group of it that torch.distributed knows.
"""
