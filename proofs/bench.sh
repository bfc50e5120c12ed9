#!/bin/bash
# The same fio job against ours, nbdkit's file plugin and qemu-nbd, each over the same file in memory, in turns; throughput,
# latency and the server's processor time, and ours as a share of the others'. KIND=serve has the planner on.
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
need nbdkit nbdkit
need qemu-nbd qemu-utils
[ -d /dev/shm ] || skip "/dev/shm not found"
seconds=$(long && echo 20 || echo 4)
rounds=$(long && echo 5 || echo 3)
memory=$(mktemp -d /dev/shm/freeblock-bench.XXXXXX)
at_end() { rm -rf "$memory"; }
truncate -s 1G "$memory/disk"
dd if=/dev/urandom of="$memory/disk" bs=1M count=1024 conv=notrunc status=none
ln -s "$memory/disk" "$WORK/disk"

# ticks PID: processor time so far, in hundredths of a second.
ticks() { awk '{print $14 + $15}' "/proc/$1/stat"; }

serve_with() {
  case $1 in
    ours) up 1G ;;
    nbdkit) nbdkit --foreground --unix "$SOCKET" file "$memory/disk" >>"$WORK/log" 2>&1 & server=$! ;;
    qemu-nbd) qemu-nbd --persistent --shared=16 --format=raw --cache=writeback --aio=io_uring --socket="$SOCKET" "$memory/disk" >>"$WORK/log" 2>&1 & server=$! ;;
  esac
  for _ in $(seq 1000); do [ -S "$SOCKET" ] && return; sleep 0.01; done
  echo "$1 does not listen" >&2; exit 1
}

cd "$WORK"
for round in $(seq "$rounds"); do
  for who in ours nbdkit qemu-nbd; do
    serve_with $who
    for load in 4k,1 4k,16 4k,64 1M,1 1M,16; do
      block=${load%,*} depth=${load#*,}
      before=$(ticks "$server")
      fio --name=bench --ioengine=nbd --uri="$URI" --rw=randrw --rwmixread=67 --bs=$block --iodepth=$depth --size=1G --time_based \
        --runtime="$seconds" --ramp_time=1 --randseed="$round" --output-format=json --output="$WORK/fio.$who.$load.$round"
      echo $(($(ticks "$server") - before)) >"$WORK/cpu.$who.$load.$round"
    done
    down
  done
done
python3 - "$WORK" "$rounds" "$KIND" <<'PY'
import json, statistics, sys
work, rounds, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
print(f"Two thirds reads, over a file in memory; ours is {kind}; medians of {rounds} rounds")
print(f"{'block':>5} {'depth':>5} {'server':<9} {'IOPS':>8} {'read p50 us':>12} {'p99 us':>8} {'server CPU us/request':>22}")
for load in ("4k,1", "4k,16", "4k,64", "1M,1", "1M,16"):
    block, depth = load.split(",")
    medians = {}
    for who in ("ours", "nbdkit", "qemu-nbd"):
        rows = []
        for round in range(1, rounds + 1):
            job = json.load(open(f"{work}/fio.{who}.{load}.{round}"))["jobs"][0]
            rate = job["read"]["iops"] + job["write"]["iops"]
            assert job["error"] == 0 and rate > 0, (who, load, job["error"], rate)
            slow = job["read"]["clat_ns"]["percentile"]
            cpu = int(open(f"{work}/cpu.{who}.{load}.{round}").read()) * 1e4
            # The ramp is in the processor time and not in the counts.
            seconds = job["job_runtime"] / 1e3
            rows.append((rate, slow["50.000000"] / 1e3, slow["99.000000"] / 1e3, cpu / (rate * (seconds + 1))))
        median = [statistics.median(row[i] for row in rows) for i in range(4)]
        medians[who] = median
        print(f"{block:>5} {depth:>5} {who:<9} {median[0]:>8.0f} {median[1]:>12.1f} {median[2]:>8.1f} {median[3]:>22.1f}")
    for other in ("nbdkit", "qemu-nbd"):
        rate, p50, _, cpu = (ours / theirs for ours, theirs in zip(medians["ours"], medians[other]))
        print(f"{block:>5} {depth:>5} ours / {other}: {rate:.2f} of its IOPS, {p50:.2f} of its p50, {cpu:.2f} of its CPU a request")
PY
