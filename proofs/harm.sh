#!/bin/bash
# What the daemon and its scrub cost a disk's clients, in real time: the same random requests of fio, at RATES of open arrivals, in turns
# to the drive alone with its own queue (`freeblock emulate`), to the daemon in front of it, and to the daemon while it scrubs. DRIVE is a
# built-in drive or a profile, and behind commas how it differs from it.
KIND=live TASKS=no DRIVE=${DRIVE:-nearline-20tb,modern}
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
RATES=${RATES:-20 50}
seconds=$(long && echo 60 || echo 6)
rounds=$(long && echo 5 || echo 1)
cd "$WORK"
# A sparse file of 20 TB is too long for ext4.
BYTES=$(mktemp -u -p /dev/shm freeblock-harm.XXXXXX)
at_end() { rm -f "$BYTES"; }
for round in $(seq "$rounds"); do
  for rate in $RATES; do
    for arm in alone daemon scrub; do
      rm -rf "$BYTES" "$WORK/state"
      case $arm in
        alone)
          "$FREEBLOCK" emulate "${DRIVE%%,*}" --behaviour "${DRIVE#*,}" --file "$BYTES" --socket "$SOCKET" >>"$WORK/log" 2>&1 &
          server=$!
          for _ in $(seq 1000); do [ -S "$SOCKET" ] && break; sleep 0.01; done ;;
        *)
          daemon "emulated:$DRIVE,file=$BYTES"
          server=$!
          for _ in $(seq 1000); do [ -S "$CONTROL" ] && break; sleep 0.01; done ;;
      esac
      [ $arm != scrub ] || ask scrub >>"$WORK/log"
      # Arrivals and places are those of the round in each arm.
      fio --name=harm --ioengine=nbd --uri="$URI" --rw=randrw --rwmixread=67 --bs=4k --iodepth=128 --rate_iops="$((rate * 2 / 3)),$((rate / 3))" \
        --rate_process=poisson --norandommap --random_generator=tausworthe64 --randrepeat=1 --time_based --runtime="$seconds" \
        --randseed="$round" --output-format=json --output="$WORK/fio.$arm.$rate.$round"
      [ $arm = alone ] || ask status --json >"$WORK/status.$arm.$rate.$round"
      down
    done
  done
done
python3 - "$WORK" "$rounds" "$seconds" "$DRIVE" $RATES <<'PY'
import json, statistics, sys
work, rounds, seconds, drive, rates = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:]
print(f"4 KiB, two thirds reads, open arrivals over {drive} in real time; {rounds} rounds of {seconds} s an arm, medians")
print(f"{'1/s':>4} {'arm':<10} {'IOPS':>7} {'mean ms':>8} {'read p50':>9} {'p99':>8} {'write p50':>10} {'p99':>8} {'scrub MB/s':>11} {'in gaps':>8}")
def row(arm, rate, round):
    job = json.load(open(f"{work}/fio.{arm}.{rate}.{round}"))["jobs"][0]
    reads, writes = job["read"], job["write"]
    done = reads["total_ios"] + writes["total_ios"]
    assert job["error"] == 0 and done > 0, (arm, job["error"], done)
    mean = (reads["lat_ns"]["mean"] * reads["total_ios"] + writes["lat_ns"]["mean"] * writes["total_ios"]) / done / 1e6
    at = lambda way, share: way["clat_ns"]["percentile"][share] / 1e6
    total, gaps = 0, 0
    if arm != "alone":
        space = json.load(open(f"{work}/status.{arm}.{rate}.{round}"))["disks"][0]["status"]["background"]
        total, gaps = sum(space[key] for key in ("gap_bytes", "idle_bytes", "promoted_bytes")), space["gap_bytes"]
    return (reads["iops"] + writes["iops"], mean, at(reads, "50.000000"), at(reads, "99.000000"), at(writes, "50.000000"), at(writes, "99.000000"),
        total / job["job_runtime"] * 1e3 / 1e6, gaps / max(total, 1) * 100)
for rate in rates:
    all = {arm: [row(arm, rate, round) for round in range(1, rounds + 1)] for arm in ("alone", "daemon", "scrub")}
    for arm, rows in all.items():
        m = [statistics.median(column) for column in zip(*rows)]
        print(f"{rate:>4} {arm:<10} {m[0]:>7.1f} {m[1]:>8.2f} {m[2]:>9.2f} {m[3]:>8.2f} {m[4]:>10.2f} {m[5]:>8.2f} {m[6]:>11.2f} {m[7]:>7.0f}%")
        if arm != "alone":
            ratios = [mine[1] / his[1] for mine, his in zip(rows, all["alone"])]
            spread = f", from {min(ratios):.3f} to {max(ratios):.3f}" if rounds > 1 else ""
            print(f"{'':<15} mean response {statistics.mean(ratios):.3f} of the drive alone{spread}, round by round")
PY
