#!/bin/bash
# What tasks cost the foreground: the same fio job over a drive in real time, in turns alone, beside a scrub, and beside a
# scrub and a backup (whose blocks are read out of turn when a write comes for them). DRIVE is a built-in drive or a profile, and
# `,noise` if it is to vary as real ones do.
KIND=live TASKS=no DRIVE=${DRIVE:-quantum-atlas-10k}
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
seconds=$(long && echo 30 || echo 6)
rounds=$(long && echo 3 || echo 1)
cd "$WORK"
for round in $(seq "$rounds"); do
  for beside in nothing scrub both; do
    rm -rf "$WORK/disk" "$WORK/state" "$WORK/image"
    up
    [ $beside = nothing ] || ask scrub >>"$WORK/log"
    [ $beside != both ] || ask backup "$WORK/image" >>"$WORK/log"
    fio --name=harm --ioengine=nbd --uri="$URI" --rw=randrw --rwmixread=67 --bs=4k --iodepth=4 --size=8G --time_based \
      --runtime="$seconds" --randseed="$round" --output-format=json --output="$WORK/fio.$beside.$round"
    ask status --json >"$WORK/status.$beside.$round"
    down
  done
done
python3 - "$WORK" "$rounds" "$DRIVE" <<'PY'
import json, statistics, sys
work, rounds, drive = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print(f"4 KiB, two thirds reads, 4 outstanding, over {drive} in real time; medians of {rounds} rounds")
print(f"{'beside':<10} {'IOPS':>7} {'mean ms':>8} {'read p50':>9} {'p99':>7} {'write p50':>10} {'p99':>7} {'tasks MB/s':>11} {'in gaps':>8} {'lost to detours':>16} {'to idle':>8}")
alone = None
for beside in ("nothing", "scrub", "both"):
    rows = []
    for round in range(1, rounds + 1):
        job = json.load(open(f"{work}/fio.{beside}.{round}"))["jobs"][0]
        reads, writes = job["read"], job["write"]
        done = reads["total_ios"] + writes["total_ios"]
        assert job["error"] == 0 and done > 0, (beside, job["error"], done)
        mean = (reads["clat_ns"]["mean"] * reads["total_ios"] + writes["clat_ns"]["mean"] * writes["total_ios"]) / done / 1e6
        at = lambda way, share: way["clat_ns"]["percentile"][share] / 1e6
        status = json.load(open(f"{work}/status.{beside}.{round}"))["disks"][0]["status"]
        space = status["background"]
        total = sum(space[key] for key in ("gap_bytes", "idle_bytes", "promoted_bytes"))
        seconds = job["job_runtime"] / 1e3
        rows.append((reads["iops"] + writes["iops"], mean, at(reads, "50.000000"), at(reads, "99.000000"), at(writes, "50.000000"),
            at(writes, "99.000000"), total / seconds / 1e6, space["gap_bytes"] / max(total, 1) * 100, status["detours"]["share"] * 100, status["idle"]["share"] * 100))
    row = [statistics.median(column) for column in zip(*rows)]
    alone = alone or row
    print(f"{beside:<10} {row[0]:>7.1f} {row[1]:>8.2f} {row[2]:>9.2f} {row[3]:>7.2f} {row[4]:>10.2f} {row[5]:>7.2f} {row[6]:>11.2f} {row[7]:>7.0f}% {row[8]:>15.2f}% {row[9]:>7.2f}%")
    if beside != "nothing":
        print(f"{'':<10} mean response {row[1] / alone[1]:.3f} of what it is alone")
PY
