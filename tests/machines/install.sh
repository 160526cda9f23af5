#!/bin/sh
# The programs that tests/machines starts, where we are root on Debian. What cannot be had is skipped there.
if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
    echo "test-machines: not root on Debian, so nothing is installed, and what is missing is skipped"
    exit 0
fi
missing=
PATH="$PATH:/usr/sbin:/sbin"
for pair in ip:iproute2 mpirun.openmpi:openmpi-bin mpiexec.hydra:mpich ssh:openssh-client sshd:openssh-server \
    munged:munge slurmctld:slurmctld slurmd:slurmd sbatch:slurm-client; do
    command -v "${pair%%:*}" > /dev/null || missing="$missing ${pair#*:}"
done
[ -n "$missing" ] || exit 0
echo "test-machines: installing$missing"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq > /dev/null 2>&1 || echo "test-machines: the lists of packages are as old as they are"
for package in $missing; do
    apt-get install -y -qq --no-install-recommends "$package" > /dev/null 2>&1 \
        || echo "test-machines: $package cannot be installed, and what needs it is skipped"
done
