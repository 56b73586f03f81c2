"""Which part of every global batch is this process's: what the launcher wrote into the environment."""

from __future__ import annotations

import os

from .._errors import InvalidArgument

# (rank, number of ranks) as torchrun and PyTorchJob, srun, Open MPI, and MPICH or Intel MPI name them. srun's own count is
# taken and not SLURM_NTASKS, which also stands in the batch script, where one process runs.
_LAUNCHERS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def launched() -> tuple[int, int]:
    """Rank and world size that the launcher gave this process; (0, 1) where there was none.

    Errors: InvalidArgument, when what stands there is no rank: to guess would give two processes the same records.

    >>> from unittest import mock
    >>> with mock.patch.dict(os.environ, {"RANK": "3", "WORLD_SIZE": "8"}):
    ...     launched()
    (3, 8)
    """
    for rank_name, world_name in _LAUNCHERS:
        rank, world = os.environ.get(rank_name), os.environ.get(world_name)
        if rank is None or world is None:
            continue
        if not (rank.isdecimal() and world.isdecimal() and int(rank) < int(world)):
            raise InvalidArgument(
                f"Loader: rank: the environment says {rank_name}={rank!r} and {world_name}={world!r}, which is no rank; "
                "give Loader(rank=, world_size=), or correct the variables"
            )
        return int(rank), int(world)
    return 0, 1
