"""How many disk-days an hour a fleet takes: `python bench_fleet.py [DISKS] [WORKERS...]`, with the wheel installed.

A line for each number of workers. A disk-day is a day of a disk's task in the results; a simulated day is a day of a simulated disk.
"""
import os
import sys
import time

import freeblock


def main():
    disks = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for workers in [int(word) for word in sys.argv[2:]] or [1, 2]:
        began = time.monotonic()
        fleet = freeblock.fleet(disks, workers=workers, progress=False)
        hours = (time.monotonic() - began) / 3600
        print(
            f"{workers} workers of {os.cpu_count()} processors: {disks} disks in {hours * 3600:.0f} s, {disks / hours:.0f} disks, "
            f"{fleet.disk_days / hours:.0f} disk-days and {fleet.simulated_days / hours:.1f} simulated days an hour; "
            f"{fleet.unfinished_share:.0%} unfinished",
            flush=True,
        )


if __name__ == "__main__":
    main()
