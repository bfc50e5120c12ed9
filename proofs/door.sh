#!/bin/bash
# A program that reads at the background export costs clients no more than the bound: random reads of clients over a drive in real time,
# alone, beside a program at the background export (or at a snapshot), and beside the same program at the disk's own export. What each
# program has read is compared with what was written. PROGRAMS are some of nbdcopy, dd, restic and copy (a directory, file by file, as
# pg_basebackup does); without it all that are installed. MB is how much they read, and FLOOR the
# floor of the background export.
# A sparse file of 20 TB needs a file system that takes one; ext4 does not.
export TMPDIR=${TMPDIR:-/dev/shm}
KIND=live TASKS=no DRIVE=${DRIVE:-nearline-20tb,modern} RATE=${RATE:-50}
. "$(dirname "$0")/lib.sh"
need fio fio
need nbdfuse nbdfuse
need nbdcopy libnbd-bin
need nbdkit nbdkit
need python3 python3
need mkfs.ext4 e2fsprogs
need_root
rounds=${ROUNDS:-$(long && echo 3 || echo 1)}
alone=${ALONE:-$(long && echo 60 || echo 5)}
mb=${MB:-$(long && echo 2048 || echo 48)}
cd "$WORK"
mkdir -p mnt fuse2 tree/base
socket=$SOCKET
uri() { echo "nbd+unix:///$1?socket=$socket"; }

# The first part of the disk is a file system with the files that restic and the copy read.
for n in $(seq $((mb / 8))); do head -c 4M /dev/urandom >"tree/base/$n"; done
for n in $(seq 200); do head -c $((n * 80)) /dev/urandom >"tree/base/small.$n"; done
truncate -s "${mb}M" image
mkfs.ext4 -q -F -d tree image
up() {
  "$FREEBLOCK" serve --disk "d0=emulated:$DRIVE,file=$WORK/disk" --listen "unix:$SOCKET" --background d0-background ${FLOOR:+--background-floor "$FLOOR"} \
    --state "$WORK/state" --control "$CONTROL" >>log 2>&1 &
  server=$!
  for _ in $(seq 1000); do [ -S "$CONTROL" ] && return; kill -0 "$server" 2>/dev/null || break; sleep 0.01; done
  fail "the daemon does not start"
}
# The daemon makes the drive's file. The bytes are put into it below the daemon, which is faster than through a drive in real time.
up
down
dd if=image of=disk bs=1M conv=notrunc,sparse status=none
up
ask snapshot d0 --name door >>log

# at EXPORT: it as a file, fuse2/nbd; away: no longer.
at() {
  nbdfuse --readonly fuse2 "$(uri "$1")" >>log 2>&1 &
  fuse=$!
  for _ in $(seq 1000); do [ -e fuse2/nbd ] && return; sleep 0.01; done
  fail "nbdfuse does not start"
}
away() {
  for _ in $(seq 400); do umount fuse2 2>/dev/null && break; sleep 0.05; done
  kill "$fuse" 2>/dev/null || true
  wait "$fuse" 2>/dev/null || true
  fuse=
}
mounted() {
  at "$1"
  DEVICE=$(losetup --find --show --read-only fuse2/nbd)
  mount -o ro,noload "$DEVICE" mnt
}
unmounted() { unmount "$WORK/mnt"; losetup --detach "$DEVICE"; DEVICE=; away; }

# run PROGRAM EXPORT: reads, and compares.
run() {
  rm -rf out repository
  case $1 in
    nbdcopy)
      nbdcopy --requests=64 -- [ nbdkit --exit-with-parent -r --filter=offset nbd "uri=$(uri "$2")" offset=0 "range=${mb}M" ] out
      cmp image out ;;
    dd)
      at "$2"
      dd if=fuse2/nbd of=out bs=1M "count=$mb" status=none
      away
      cmp image out ;;
    restic)
      mounted "$2"
      RESTIC_PASSWORD=door restic --quiet --no-cache -r repository init
      (cd mnt && RESTIC_PASSWORD=door restic --quiet --no-cache -r ../repository backup base)
      unmounted
      RESTIC_PASSWORD=door restic --quiet --no-cache -r repository restore latest --target out
      diff -r tree/base out/base ;;
    copy)
      mounted "$2"
      cp -r mnt/base out
      unmounted
      diff -r tree/base out ;;
  esac
}
load=
# An end in the middle leaves no clients behind.
at_end() { [ -z "$load" ] || kill "$load" 2>/dev/null; mountpoint -q "$WORK/mnt" && umount "$WORK/mnt"; [ -z "$DEVICE" ] || losetup --detach "$DEVICE"; DEVICE=; umount "$WORK/fuse2" 2>/dev/null; }
# measured NAME COMMAND ...: with clients beside it, whose response times go to NAME_clat.log.
measured() {
  local name=$1 began
  shift
  fio --name=door --ioengine=nbd --uri="$(uri "")" --rw=randread --bs=4k --iodepth=32 --rate_iops="$RATE" --rate_process=poisson \
    --time_based --runtime=36000 --randrepeat=0 --write_lat_log="$name" --log_offset=1 --output="$name.fio" &
  load=$!
  sleep 1
  began=$(date +%s%N)
  "$@" || { kill "$load"; fail "$name: what was read is not what was written"; }
  echo $((($(date +%s%N) - began) / 1000000)) >"$name.ms"
  kill -INT "$load"
  wait "$load" || true
  load=
}
programs=${PROGRAMS:-nbdcopy dd copy $(command -v restic >/dev/null && echo restic || echo "skipped: restic not found; on Debian it is in restic" >&2)}
for round in $(seq "$rounds"); do
  for program in $programs; do
    case $program in
      # From a file system that is read in the middle of changes nothing can be expected; the door is the snapshot.
      restic | copy) door=d0@door ;;
      *) door=d0-background ;;
    esac
    measured "alone.$program.$round" sleep "$alone"
    measured "door.$program.$round" run "$program" "$door"
    measured "own.$program.$round" run "$program" ""
  done
done
ask status --json >status
down
python3 - "$rounds" "$DRIVE" "$RATE" "$mb" $programs <<'PY'
import glob, json, random, statistics, sys
rounds, drive, rate, mb, programs = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5:]
def batches(way, program):
    "Response times in milliseconds, in batches of 50 in the order of time."
    found = []
    for round in range(1, rounds + 1):
        times = []
        for log in glob.glob(f"{way}.{program}.{round}_clat*.log"):
            times += [int(line.split(",")[1]) / 1e6 for line in open(log)]
        found += [times[at:at + 50] for at in range(0, len(times), 50)]
    return found
def mean(all): return statistics.fmean(time for batch in all for time in batch)
def late(all):
    times = sorted(time for batch in all for time in batch)
    return times[min(len(times) - 1, len(times) * 99 // 100)]
dice = random.Random(1)
def interval(of, some, base):
    "The ratio of two figures, and 95% of it over batches that are drawn anew."
    drawn = sorted(of(dice.choices(some, k=len(some))) / of(dice.choices(base, k=len(base))) for _ in range(300))
    return of(some) / of(base), drawn[7], drawn[292]
print(f"{rate} random reads of 4 KiB a second over {drive} in real time, {mb} MB read beside them, {rounds} rounds")
print(f"{'program':<8} {'at':<12} {'MB/s':>6} {'requests':>9} {'mean ms':>8} {'p99 ms':>8}   mean and p99 to those alone, 95%")
for program in programs:
    base = batches("alone", program)
    for way, where in (("alone", "-"), ("door", "background"), ("own", "its own")):
        some = batches(way, program)
        spent = [int(open(f"{way}.{program}.{round}.ms").read()) / 1e3 for round in range(1, rounds + 1)]
        speed = "" if way == "alone" else f"{float(mb) * 1.048576 * rounds / sum(spent):.1f}"
        said = ""
        # A program that is done sooner has met too few of them.
        few = min(sum(map(len, some)), sum(map(len, base))) < 100
        if few:
            print(f"{program:<8} {where:<12} {speed:>6} {sum(map(len, some)):>9}")
            continue
        if way != "alone":
            said = "; ".join(f"{ratio:.3f} ({low:.3f} to {high:.3f})" for ratio, low, high in (interval(of, some, base) for of in (mean, late)))
        print(f"{program:<8} {where:<12} {speed:>6} {sum(map(len, some)):>9} {mean(some):>8.2f} {late(some):>8.2f}   {said}")
status = json.load(open("status"))["disks"][0]["status"]
space = status["background"]
print(f"by the core's estimate: harm {status['detours']['share'] * 100:.2f}% in gaps, {status['idle']['share'] * 100:.2f}% in idle time; {space['gap_bytes'] / 1e6:.0f} MB in gaps, {space['idle_bytes'] / 1e6:.0f} MB in idle time")
late = status["lateness"]
print(f"the drive was late by {late['p50_us']:.0f} us (median), {late['p99_us']:.0f} us (99th percentile)")
PY
