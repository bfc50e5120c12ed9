"""A sweep on a cluster of two worker processes, one of which is killed midway. It needs `distributed`."""
import os
import signal
import tempfile

from dask.distributed import Client, LocalCluster

import freeblock


def main():
    grid = {"policy": ["fcfs", "sptf"], "outstanding": [1, 2, 4, 8, 16], "requests": [20_000]}
    expected = freeblock.sweep(grid, seeds=4).to_pydict()
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            found = []
            kept = freeblock.sweeping._keep

            def keep(*arguments):
                kept(*arguments)
                found.append(arguments[1])
                if len(found) == 5:
                    os.kill(client.run(os.getpid)[sorted(client.scheduler_info()["workers"])[0]], signal.SIGKILL)

            freeblock.sweeping._keep = keep
            with tempfile.TemporaryDirectory() as directory:
                table = freeblock.sweep(grid, 4, client, directory=directory).to_pydict()
                assert len(os.listdir(directory)) == 40
    assert table == expected, "the cluster has other numbers"
    assert len(found) == len(set(found)) == 40, "a result was lost or came twice"
    print("all checks passed")


if __name__ == "__main__":
    main()
