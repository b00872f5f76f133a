"""Which node, GPU and NIC a rank of the program is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """Ranks are laid over nodes in order; ``role_stride`` of one role come before those of the next one."""

    roles: int
    ranks: int  # of a role
    role_stride: int
    node_gpus: int
    node_nics: int

    def number(self, role: int, rank: int) -> int:
        """Rank of the whole job."""
        block, inside = divmod(rank, self.role_stride)
        return (block * self.roles + role) * self.role_stride + inside

    def of_gpu(self, node: int, gpu: int) -> tuple[int, int]:
        """(role, rank within it) of one GPU."""
        block, inside = divmod(node * self.node_gpus + gpu, self.role_stride)
        around, role = divmod(block, self.roles)
        return role, around * self.role_stride + inside

    def of_nic(self, node: int, nic: int) -> tuple[tuple[int, int], ...]:
        """(role, rank within it) of the GPUs that send over one NIC."""
        share = self.node_gpus / self.node_nics
        gpus = (g for g in range(self.node_gpus) if min(self.node_nics - 1, int(g / share)) == nic)
        total = self.roles * self.ranks
        return tuple(self.of_gpu(node, g) for g in gpus if node * self.node_gpus + g < total)

    def words(self, role: int, rank: int) -> str:
        """``GPU 3 of node 17 (rank 139, stage 2)``."""
        number = self.number(role, rank)
        node, gpu = divmod(number, self.node_gpus)
        stage = f", stage {role}" if self.roles > 1 else ""
        return f"GPU {gpu} of node {node} (rank {number}{stage})"
