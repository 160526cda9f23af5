"""``import hasten.backends``, and any torch script can call ``dist.init_process_group("shm")``. Each of these
names is for CPU tensors only, also in ``dist.new_group(backend=NAME)`` along with another backend.

``shm``: ranks on one machine, on CPUs, through shared memory: the same as Gloo through TCP, in
a fraction of the time. A rank that ends raises in the others within a tenth of a second, one that is stopped
within the group's timeout; both are named.

``mpi4py``: ranks that mpirun or srun started, by any MPI library (pip install 'hasten[mpi]').

``ccl``: Intel's oneCCL (pip install 'hasten[ccl]'). Measure before you choose it: ``python -m
benchmarks.backends`` of hasten's repository compares all of them.
"""

from .inside.distributed.register import register

register()
