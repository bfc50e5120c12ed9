"""How many disk-days an hour a fleet takes: `python bench_fleet.py [DISKS] [WORKERS...]`, with the wheel installed.

A line for each number of workers. A disk-day is a day of a disk's task in the results; a simulated day is a day of a simulated disk.
Where other programs use the processors too, the rate by processor time is that of a machine without them: a fleet that is linear in
its workers takes the same processor time with any number.
"""
import os
import resource
import sys
import time

import freeblock


def processor_hours():
    used = [resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) / 3600


def main():
    disks = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    for workers in [int(word) for word in sys.argv[2:]] or [1, 2]:
        began, used = time.monotonic(), processor_hours()
        fleet = freeblock.fleet(disks, workers=workers, progress=False)
        hours, used = (time.monotonic() - began) / 3600, processor_hours() - used
        print(
            f"{workers} workers of {os.cpu_count()} processors: {disks} disks in {hours * 3600:.0f} s, {disks / hours:.0f} disks, "
            f"{fleet.disk_days / hours:.0f} disk-days and {fleet.simulated_days / hours:.1f} simulated days an hour; "
            f"{used * 3600:.1f} s of processor time, {fleet.disk_days / used:.0f} disk-days an hour of it; "
            f"{fleet.unfinished_share:.0%} unfinished",
            flush=True,
        )


if __name__ == "__main__":
    main()
