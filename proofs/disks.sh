#!/bin/bash
# What a disk costs the daemon: one daemon with DISKS emulated drives in real time (24) and one control socket, random reads on each
# and a scrub of all, after the same with one drive. Memory, the time of processors, and how long `freeblock status` takes.
# A sparse file of 20 TB needs a file system that takes one; ext4 does not.
export TMPDIR=${TMPDIR:-/dev/shm}
KIND=live TASKS=no DRIVE=${DRIVE:-nearline-20tb,modern} DISKS=${DISKS:-24} RATE=${RATE:-20}
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
seconds=$(long && echo 60 || echo 6)
cd "$WORK"

# serve N: a daemon with so many drives, its reads and its scrubs; what it took goes to measured.N.
serve() {
  local disks=$1 n before after
  rm -rf state d[0-9]*
  {
    printf 'state = "%s"\ncontrol = "%s"\n' "$WORK/state" "$CONTROL"
    for n in $(seq 0 $((disks - 1))); do
      printf '[[disk]]\nname = "d%d"\ndevice = "emulated:%s,file=%s/d%d"\nlisten = ["unix:%s/s%d"]\n' "$n" "$DRIVE" "$WORK" "$n" "$WORK" "$n"
    done
  } >config
  "$FREEBLOCK" serve --config config >>log 2>&1 &
  server=$!
  for _ in $(seq 1000); do
    [ ! -S "$CONTROL" ] || break
    kill -0 "$server" 2>/dev/null || { echo "the daemon does not start:" >&2; cat log >&2; exit 1; }
    sleep 0.05
  done
  ask scrub --disk all >>log
  {
    printf '[global]\nioengine=nbd\nrw=randread\nbs=4k\niodepth=4\nrate_iops=%d\nrate_process=poisson\ntime_based\nruntime=%d\nthread\nsize=1G\n' "$RATE" "$seconds"
    for n in $(seq 0 $((disks - 1))); do printf '[d%d]\nuri=nbd+unix:///?socket=%s/s%d\n' "$n" "$WORK" "$n"; done
  } >job
  before=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
  fio --output-format=json --output="fio.$disks" job
  after=$(awk '{ print $14 + $15 }' "/proc/$server/stat")
  local asked=$(date +%s%N)
  ask status >"screen.$disks"
  local answered=$(date +%s%N)
  ask status --json >"status.$disks"
  echo "$(awk '/^VmRSS/ { print $2 }' "/proc/$server/status") $((after - before)) $(((answered - asked) / 1000000)) $(wc -l <"screen.$disks") $(ls "/proc/$server/task" | wc -l)" >"measured.$disks"
  down
}
serve 1
serve "$DISKS"
cat "screen.$DISKS"
python3 - "$DISKS" "$seconds" "$DRIVE" "$(getconf CLK_TCK)" <<'PY'
import json, sys
disks, seconds, drive, ticks = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
print(f"one daemon over {drive} in real time for {seconds} s, random reads on each disk and a scrub of all")
print(f"{'disks':>5} {'reads/s':>8} {'mean ms':>8} {'scrub MB/s':>11} {'memory MB':>10} {'CPU %':>6} {'threads':>8} {'status ms':>10} {'lines':>6}")
row = {}
for n in (1, disks):
    memory, used, asked, lines, threads = map(int, open(f"measured.{n}").read().split())
    # fio's remarks stand before its JSON.
    text = open(f"fio.{n}").read()
    jobs = json.loads(text[text.index("{"):])["jobs"]
    assert len(jobs) == n and all(job["error"] == 0 and job["read"]["total_ios"] > 0 for job in jobs), jobs
    status = json.load(open(f"status.{n}"))["disks"]
    read = sum(disk["status"]["background"][key] for disk in status for key in ("gap_bytes", "idle_bytes"))
    assert all(disk["tasks"][0]["state"] == "running" for disk in status), "each disk is scrubbed"
    total = sum(job["read"]["total_ios"] for job in jobs)
    mean = sum(job["read"]["clat_ns"]["mean"] * job["read"]["total_ios"] for job in jobs) / total / 1e6
    row[n] = (memory / 1e3, used / ticks / seconds * 100)
    print(f"{n:>5} {total / seconds:>8.0f} {mean:>8.2f} {read / seconds / 1e6:>11.1f} {row[n][0]:>10.1f} {row[n][1]:>6.1f} {threads:>8} {asked:>10} {lines:>6}")
each = [(many - one) / (disks - 1) for one, many in zip(row[1], row[disks])]
print(f"each further disk: {each[0]:.1f} MB of memory, {each[1]:.2f}% of a processor")
PY
