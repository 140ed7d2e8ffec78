"""A Ray cluster of two nodes of one core each on this machine, in a process of its own.

`python -m tests.faults.ray_nodes` prints its address; a line on standard input kills the second
node, with all that runs there; the end of the input ends the cluster.
"""

import os
import sys
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

# A node that is gone is noticed within seconds, not half a minute.
QUICK = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 500,
    "health_check_failure_threshold": 4,
}
STORE = 100 * 2**20
"""Bytes of each node's object store: the least that Ray takes."""


def main() -> None:
    from ray.cluster_utils import Cluster

    small: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE}
    cluster: Any = Cluster(
        initialize_head=True,
        head_node_args={**small, "include_dashboard": False, "_system_config": QUICK},
    )
    second = cluster.add_node(**small)
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    if sys.stdin.readline():
        cluster.remove_node(second, allow_graceful=False)
        print("killed", flush=True)
        sys.stdin.read()
    cluster.shutdown()


if __name__ == "__main__":
    main()
