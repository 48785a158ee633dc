"""Runs folio.ray_serve for ray_test.py, on a small local Ray. $FOLIO_TEST_ISA lists instruction sets, which replicas
use in turn. Each replica writes its process id to a file, named by its rank, in the folder $FOLIO_TEST_REPLICAS."""

import os
from pathlib import Path

import ray

from folio import ray_serve

SETS = os.environ.get("FOLIO_TEST_ISA", "").split()


class Marked(ray_serve.Replica):
    def __init__(self, *args):
        from ray import serve

        rank = getattr(serve.get_replica_context().rank, "rank", serve.get_replica_context().rank)
        if SETS:
            os.environ["FOLIO_ISA"] = SETS[rank % len(SETS)]
        super().__init__(*args)
        (Path(os.environ["FOLIO_TEST_REPLICAS"]) / str(rank)).write_text(str(os.getpid()))


if __name__ == "__main__":
    import ray_app  # Ray's processes import Marked from this module, not from __main__

    ray.init(num_cpus=8, object_store_memory=100_000_000, include_dashboard=False)
    ray_serve.main(ray_app.Marked)
