"""A sweep and a fleet on clusters of two worker processes, one of which is killed midway. It needs `distributed`."""
import os
import signal
import tempfile

from dask.distributed import Client, LocalCluster

import freeblock


def killed_midway(work, kill_at):
    """The result of `work(client, directory)`, with the keys of the simulations in the order in which they came."""
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            found, killed = [], []
            kept = freeblock.sweeping._keep

            def keep(*arguments):
                kept(*arguments)
                found.append(arguments[1])
                if len(found) == kill_at:
                    killed.append(client.run(os.getpid)[sorted(client.scheduler_info()["workers"])[0]])
                    os.kill(killed[0], signal.SIGKILL)

            freeblock.sweeping._keep = keep
            try:
                with tempfile.TemporaryDirectory() as directory:
                    result = work(client, directory)
                    assert sorted(os.listdir(directory)) == sorted(f"{key}.parquet" for key in found)
            finally:
                freeblock.sweeping._keep = kept
            assert killed and killed[0] not in client.run(os.getpid).values()
    assert len(found) == len(set(found)), "a result came twice"
    return result, found


def closed_midway(client):
    """The first result is kept, and the error says what to do."""
    kept = freeblock.sweeping._keep

    def keep(*arguments):
        kept(*arguments)
        client.close()

    freeblock.sweeping._keep = keep
    try:
        with tempfile.TemporaryDirectory() as directory:
            try:
                freeblock.sweep({"requests": [10, 2_000_000]}, 4, client, directory=directory)
            except freeblock.CommandError as error:
                assert "the client was closed" in str(error), error
            else:
                raise AssertionError("a sweep went on without its client")
            assert os.listdir(directory), "the first result was lost"
    finally:
        freeblock.sweeping._keep = kept


def main():
    grid = {"policy": ["fcfs", "sptf"], "outstanding": [1, 2, 4, 8, 16], "requests": [20_000]}
    expected = freeblock.sweep(grid, seeds=4).to_pydict()
    table, found = killed_midway(lambda client, directory: freeblock.sweep(grid, 4, client, directory=directory).to_pydict(), 5)
    assert table == expected, "the cluster has other numbers"
    assert len(found) == 40, "a result was lost"
    print("a sweep with a killed worker: equal")

    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        client = Client(cluster)
        closed_midway(client)
        try:
            freeblock.sweep({"requests": [10]}, client=client)
        except freeblock.UsageError as error:
            assert "the client is closed" in str(error), error
        else:
            raise AssertionError("a closed client was used")
    print("a closed client: refused")

    mix = {"drives": {"mimic-less-capacity": 1, "quantum-atlas-10k": 2}, "window_s": 60, "where": "inside", "group": 2}
    loads = [(1, {"workload": "random", "rate": 20}), (1, {"workload": "utilisation:30"})]
    alone = freeblock.fleet(12, "rebuild", loads=loads, **mix)

    def on_cluster(client, directory):
        return freeblock.fleet(12, "rebuild", loads=loads, client=client, directory=directory, **mix)

    # Four pilots at most come first, and then three simulations of each disk.
    fleet, found = killed_midway(on_cluster, 12)
    assert fleet.disks.to_pydict() == alone.disks.to_pydict() and fleet.summary.to_pydict() == alone.summary.to_pydict()
    assert fleet[2:] == alone[2:] and len(found) >= 36, (fleet, alone, len(found))
    print("a fleet with a killed worker: equal")
    print("all checks passed")


if __name__ == "__main__":
    main()
