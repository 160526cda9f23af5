"""``import hasten.backends``, and any torch script can say ``dist.init_process_group("shm")``. Each of these
names stands for CPU tensors alone, also in ``dist.new_group(backend=NAME)`` beside another backend.

``shm``: ranks of one machine, on CPUs, over memory that they share. What Gloo does among them through TCP, in
a fraction of the time. A rank that ends raises in the others within a tenth of a second, one that is stopped
within the group's timeout; both are named.

``mpi4py``: ranks that mpirun or srun started, by any MPI library (pip install 'hasten[mpi]').

``ccl``: Intel's oneCCL (pip install 'hasten[ccl]'). Measure before you choose it: ``python -m
benchmarks.backends`` of hasten's repository compares all of them.
"""

from .inside.distributed.register import register

register()
