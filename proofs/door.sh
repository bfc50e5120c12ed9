#!/bin/bash
# A program that reads at the background export costs clients no more than the bound, in real time: one daemon serves two emulated
# drives a program, with the same random requests at the same times on both; the program reads one of them, first at the disk's own
# export, then at the background export or at a snapshot. The response times of the two drives are compared, and what each
# program has read with what was written. All programs read at the same time, each from its own drive, since an emulated drive
# costs little.
# PROGRAMS are some of nbdcopy, dd, restic and pg (a data directory of PostgreSQL, copied as pg_basebackup does, file by file).
# MB is how much nbdcopy and dd read, TREE the MB of files for restic, SCALE the scale of pgbench for pg. COPIES=N runs nbdcopy and dd N
# times at once, each with two drives of its own, so that the hour says more of the 99th percentile; copies after the first read a
# quarter of MB, for the drives' files are in memory. The first copy of a program is ended OWN seconds after it began at the disk's own export. At the background export it begins again when it has read all, and is ended after MINUTES;
# with MINUTES=0 it reads all once. What it has read by then is compared. FLOOR is the floor of the background export. KEEP is a directory
# that gets all that was measured, also by a run that fails, for `door.py table` and `door.py runs`.
# A third of the clients' requests are writes. Beside a snapshot all are reads: the first write to a block of a snapshot reads it
# before, which is the cost of the snapshot, not of its reader.
# A sparse file of 20 TB needs a file system that takes one; ext4 does not.
export TMPDIR=${TMPDIR:-/dev/shm}
KIND=live TASKS=no DRIVE=${DRIVE:-nearline-20tb,modern} RATE=${RATE:-50}
. "$(dirname "$0")/lib.sh"
python=/usr/bin/python3
need nbdfuse nbdfuse
need nbdcopy libnbd-bin
need nbdkit nbdkit
need "$python" python3
"$python" -c 'import nbd' 2>/dev/null || skip "the module nbd of Python not found; on Debian it is in python3-libnbd"
need mkfs.ext4 e2fsprogs
need chrt util-linux
need_root
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
mb=${MB:-$(long && echo 1908 || echo 8)}
tree=${TREE:-$(long && echo 512 || echo 8)}
scale=${SCALE:-$(long && echo 48 || echo 1)}
own=${OWN:-$(long && echo 120 || echo 20)}
connections=4
minutes=${MINUTES:-$(long && echo 75 || echo 1)}
programs=${PROGRAMS:-nbdcopy dd $(command -v restic >/dev/null && echo restic || echo "skipped: restic not found; on Debian it is in restic" >&2) \
  $([ -x "$bin/initdb" ] && id postgres >/dev/null 2>&1 && echo pg || echo "skipped: initdb not found; on Debian it is in postgresql" >&2)}
# A copy of a program is named as it with a number behind it, as in dd-2.
for program in $programs; do case $program in nbdcopy | dd) for copy in $(seq 2 "${COPIES:-1}"); do programs+=" $program-$copy"; done ;; esac; done
for program in $programs; do
  case $program in
    restic) need restic restic ;;
    pg) [ -x "$bin/initdb" ] && id postgres >/dev/null 2>&1 || skip "initdb not found; on Debian it is in postgresql" ;;
  esac
done
# The drives' files are in memory; what is compared with them is not.
FILES=$(mktemp -d "${FILES:-/var/tmp}/freeblock-door.XXXXXX")
# As root, neither the daemon nor the clients wait for other work of the machine.
soon() { exec chrt --rr 1 "$@"; }
cd "$WORK"
load=
# An end in the middle leaves nothing behind.
at_end() {
  [ -z "${KEEP:-}" ] || cp ./*.times ./*.span ./*ground.*.log "$KEEP" 2>/dev/null
  [ -z "$load" ] || kill "$load" 2>/dev/null
  for pid in $(jobs -p); do [ "$pid" = "$server" ] || kill "$pid" 2>/dev/null; done
  local program
  for program in $programs; do
    mountpoint -q "$FILES/$program.mnt" && umount "$FILES/$program.mnt"
    [ ! -e "$FILES/$program.loop" ] || losetup --detach "$(cat "$FILES/$program.loop")"
    umount "$FILES/$program.fuse" 2>/dev/null
  done
  rm -rf "$FILES"
}

# prepare PROGRAM: FILES/PROGRAM.image, with which its disk begins, and what of it is read.
prepare() {
  case $1 in
    nbdcopy | dd) head -c "${mb}M" /dev/urandom >"$FILES/$1.image" ;;
    nbdcopy-* | dd-*) head -c "$((mb / 4))M" /dev/urandom >"$FILES/$1.image" ;;
    restic)
      # Sizes of 4 KiB to 16 MiB are equally likely at any scale.
      mkdir -p "$FILES/$1.tree/base"
      "$python" - "$FILES/$1.tree/base" "$tree" <<'PY'
import os, random, sys
chance, left, n = random.Random(1), int(sys.argv[2]) << 20, 0
while left > 0:
    scale = 4096 << chance.randrange(12)
    size = min(left, scale + chance.randrange(scale))
    directory = f"{sys.argv[1]}/{chance.randrange(20)}"
    os.makedirs(directory, exist_ok=True)
    open(f"{directory}/{n}", "wb").write(os.urandom(size))
    left, n = left - size, n + 1
PY
      truncate -s "$((tree * 5 / 4 + 16))M" "$FILES/$1.image"
      mkfs.ext4 -q -F -d "$FILES/$1.tree" "$FILES/$1.image" ;;
    pg)
      mkdir -p "$FILES/$1.tree/base" "$FILES/run"
      chmod 755 "$FILES" "$FILES/$1.tree"
      chown postgres "$FILES/$1.tree/base" "$FILES/run"
      local pg="runuser -u postgres -- env -C $FILES/run"
      $pg "$bin/initdb" -D "$FILES/$1.tree/base" --no-sync -A trust >/dev/null
      $pg "$bin/pg_ctl" -s -w -t 120 -D "$FILES/$1.tree/base" -l "$FILES/run/log" -o "-k $FILES/run -c listen_addresses= -c fsync=off -c max_wal_size=64MB -c min_wal_size=32MB" start
      $pg "$bin/pgbench" -h "$FILES/run" -i -q -s "$scale" postgres >/dev/null 2>&1
      $pg "$bin/pgbench" -h "$FILES/run" -n -t 200 postgres >/dev/null 2>&1
      $pg "$bin/pg_ctl" -s -w -D "$FILES/$1.tree/base" -m fast stop
      truncate -s "$(($(du -sm "$FILES/$1.tree" | cut -f 1) * 5 / 4 + 64))M" "$FILES/$1.image"
      mkfs.ext4 -q -F -d "$FILES/$1.tree" "$FILES/$1.image" ;;
  esac
}

up() {
  soon "$FREEBLOCK" serve --config config >>log 2>&1 &
  server=$!
  for _ in $(seq 3000); do [ -S "$CONTROL" ] && return; kill -0 "$server" 2>/dev/null || break; sleep 0.01; done
  fail "the daemon does not start"
}
disk() {
  printf '[[disk]]\nname = "%s"\ndevice = "emulated:%s,file=%s/%s.disk"\nlisten = ["unix:%s/%s.socket"]\n' "$1" "$DRIVE" "$WORK" "$1" "$WORK" "$1"
}
{
  printf 'state = "%s"\ncontrol = "%s"\n' "$WORK/state" "$CONTROL"
  for program in $programs; do
    disk "$program"
    printf 'background = "background"\n%s' "${FLOOR:+background_floor = \"$FLOOR\"$'\n'}"
    disk "$program-alone"
  done
} >config
for program in $programs; do prepare "$program"; done
# The daemon makes the drives' files. The bytes are put into them below the daemon, which is faster than through a drive in real time.
up
down
for program in $programs; do dd if="$FILES/$program.image" of="$program.disk" bs=1M conv=notrunc,sparse status=none; done
up
# A file system that is read in the middle of changes cannot be expected to be whole; its readers have a snapshot.
for program in $programs; do case $program in restic | pg) ask snapshot "$program" --name door >>log ;; esac; done

# through EXPORT PROGRAM: a server of one export of the program's disk, for a program that ends it, with a log of all reads.
through() {
  server_of=("[" nbdkit --exit-with-parent --threads=64 -r --filter=offset --filter=log nbd "uri=nbd+unix:///$1?socket=$WORK/$2.socket"
    "logfile=$WORK/$2.$where.log" offset=0 "range=$(stat -c %s "$FILES/$2.image")" "]")
}
# at EXPORT PROGRAM: it as a file, FILES/PROGRAM.fuse/nbd; away PROGRAM: no longer.
at() {
  mkdir -p "$FILES/$2.fuse" "$FILES/$2.mnt"
  through "$1" "$2"
  nbdfuse --readonly "$FILES/$2.fuse" "${server_of[@]}" >>log 2>&1 &
  for _ in $(seq 3000); do [ -e "$FILES/$2.fuse/nbd" ] && return; sleep 0.01; done
  fail "nbdfuse does not start"
}
away() {
  for _ in $(seq 2400); do umount "$FILES/$1.fuse" 2>/dev/null && return; sleep 0.05; done
  fail "$FILES/$1.fuse is still in use"
}
mounted() {
  at "$1" "$2"
  losetup --find --show --read-only "$FILES/$2.fuse/nbd" >"$FILES/$2.loop"
  mount -o ro,noload "$(cat "$FILES/$2.loop")" "$FILES/$2.mnt"
}
unmounted() {
  unmount "$FILES/$1.mnt"
  losetup --detach "$(cat "$FILES/$1.loop")"
  rm "$FILES/$1.loop"
  away "$1"
}
# until_end COMMAND ...: ends it at the time `deadline`; fails if it fails.
until_end() {
  local status=0 left=$((deadline - $(date +%s)))
  timeout --foreground --kill-after=60 "$((left > 0 ? left : 1))" "$@" || status=$?
  [ "$status" != 124 ] || { ended=yes; return 0; }
  return "$status"
}
# repository COMMAND ...: of restic, on the repository of this run.
repository() { RESTIC_PASSWORD=door restic --no-cache -r "$FILES/restic.repository" "$@"; }
# run PROGRAM EXPORT: reads, and compares. With `ended` it was ended before it had read all.
run() {
  local ended= parts out=$FILES/$1.out
  rm -rf "$out" "$FILES/$1.repository"
  [ "$1" != restic ] || repository --quiet init || return 1
  case $1 in restic | pg) mounted "$2" "$1" ;; dd*) at "$2" "$1" ;; nbdcopy*) through "$2" "$1" ;; esac
  local began=$(date +%s%N)
  case $1 in
    nbdcopy*) until_end nbdcopy --connections="$connections" --requests=64 -- "${server_of[@]}" "$out" ;;
    dd*) until_end dd "if=$FILES/$1.fuse/nbd" "of=$out" bs=1M "count=$(($(stat -c %s "$FILES/$1.image") >> 20))" status=none ;;
    restic) RESTIC_PASSWORD=door until_end restic --quiet --no-cache -r "$FILES/$1.repository" backup "$FILES/$1.mnt/base" ;;
    pg) until_end cp -r "$FILES/$1.mnt/base" "$out" ;;
  esac || return 1
  echo "$began $(date +%s%N)" >"$1.$where.span"
  case $1 in dd*) away "$1" ;; restic | pg) unmounted "$1" ;; esac
  same "$1" || return 1
  rm -rf "$out" "$FILES/$1.repository"
  [ -z "$ended" ] || echo "$1 was ended in the ${where%.*} before it had read all; what it had read by then is what was written"
}
# same PROGRAM: whether what `run` has read is what was written.
same() {
  case ${1%-*}${ended:+ ended} in
    nbdcopy | dd) cmp "$FILES/$1.image" "$out" ;;
    "dd ended") cmp -n "$(stat -c %s "$out")" "$FILES/$1.image" "$out" ;;
    "nbdcopy ended")
      # The last answers, as many as it has requests under way, may not be in the copy.
      "$python" "$PROOFS/door.py" answers "$1.$where.log" | head -n "-$((connections * 64))" | "$python" -c '
import sys
image, out = (open(path, "rb") for path in sys.argv[1:])
for line in sys.stdin:
    offset, bytes = map(int, line.split())
    for file in (image, out): file.seek(offset)
    assert image.read(bytes) == out.read(bytes), offset' "$FILES/$1.image" "$out" ;;
    restic) repository --quiet restore latest --target "$out" && diff -r "$FILES/$1.tree/base" "$out/$FILES/$1.mnt/base" ;;
    "restic ended")
      # The data that it has kept are parts of these files, so that a backup of them leaves none unused. Its directories are others.
      local directories
      repository --quiet unlock && repository --quiet rebuild-index >>log && parts=$(repository --quiet list blobs) &&
        repository --quiet backup "$FILES/$1.tree" && [ -n "$parts" ] && directories=$(grep -c ^tree <<<"$parts" || true) &&
        [ "$(repository prune --dry-run | sed -n 's/^total prune: *\([0-9]*\) blobs.*/\1/p')" -le "$directories" ] ;;
    pg) diff -r "$FILES/$1.tree/base" "$out" ;;
    "pg ended")
      (cd "$out" && find . -type f -print0 | while IFS= read -r -d '' file; do
        cmp -n "$(stat -c %s "$file")" "$file" "$FILES/$1.tree/base/$file" || exit 1
      done) ;;
  esac
}

clients=()
for program in $programs; do
  case $program in restic | pg) writes=0 ;; *) writes=33.3 ;; esac
  clients+=("$program:$WORK/$program.socket:$writes" "$program.alone:$WORK/$program-alone.socket:$writes")
done
soon "$python" "$PROOFS/door.py" load 86400 "$RATE" $((4 << 30)) "${clients[@]}" &
load=$!
sleep 5
where=foreground.1
for program in $programs; do
  case $program in *-*) continue ;; esac
  deadline=$(($(date +%s) + own))
  run "$program" "" || fail "$program at its own export: what was read is not what was written"
done
deadline=$(($(date +%s) + (minutes ? minutes * 60 : 86400)))
# again PROGRAM EXPORT: reads all, and begins again as long as there is time, since a short run says little of response times.
again() {
  local round=0
  until [ "$round" != 0 ] && { [ "$minutes" = 0 ] || [ "$(date +%s)" -ge "$deadline" ]; }; do
    round=$((round + 1))
    where=background.$round
    run "$1" "$2" || return 1
  done
}
readers=()
for program in $programs; do
  case $program in restic | pg) export="$program@door" ;; *) export=background ;; esac
  again "$program" "$export" &
  readers+=($!)
done
for reader in "${readers[@]}"; do wait "$reader" || fail "at the background export: what was read is not what was written"; done
kill "$load"
wait "$load" || fail "a client failed"
load=
ask status --json >status
down
[ -z "${KEEP:-}" ] || cp status "$KEEP"
echo "$RATE random requests of 4 KiB a second over $DRIVE in real time, beside programs that read; a third are writes, but beside snapshots"
# A floor costs more than the bound, and a short run shows nothing.
held=$(long && [ -z "${FLOOR:-}" ] && echo held || echo shown) status=0
"$python" "$PROOFS/door.py" table "$held" $programs || status=$?
"$python" - <<'PY'
import json
for disk in json.load(open("status"))["disks"]:
    status = disk["status"]
    space, late = status["background"], status["lateness"]
    print(f"{disk['name']}: by the core's estimate harm {status['detours']['share'] * 100:.2f}% in gaps, {status['idle']['share'] * 100:.2f}% in idle time; {space['gap_bytes'] / 1e6:.0f} MB in gaps, {space['idle_bytes'] / 1e6:.0f} MB in idle time; the drive was late by {late['p50_us']:.0f} us (median), {late['p99_us']:.0f} us (99th percentile)")
PY
exit "$status"
