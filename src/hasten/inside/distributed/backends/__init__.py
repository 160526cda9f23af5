"""Ways for ranks to communicate, one per module. Each is an ``Engine``; ``CollectiveGroup`` makes a process
group of it for torch.distributed.
"""
