"""Exchanges objects other than tensors between processes."""

from typing import TypeVar

from torch import distributed

T = TypeVar("T")


def rank_and_world() -> tuple[int, int]:
    """Return the rank of this process and the number of processes."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def gather(mine: T) -> list[T]:
    """Return the objects of all processes, by rank; all have to call it (it waits)."""
    _, world = rank_and_world()
    objects: list[T] = [mine] * world
    if world > 1:
        distributed.all_gather_object(objects, mine)
    return objects
