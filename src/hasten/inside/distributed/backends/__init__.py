"""Ways for ranks to communicate, one a module. Each is an ``Engine``; ``CollectiveGroup`` makes a process
group of it for torch.distributed.
"""
