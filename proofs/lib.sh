# What the proofs share: an export of ours, and other people's programs on it. Sourced, not run.
#
# KIND says what serves: `raw` (the example of crates/server, a file with nothing between), `emulate` (a drive in real
# time), `serve` (the daemon over a file) or `live` (the daemon over a drive in real time, with its gaps). The last two run
# a scrub and a backup meanwhile, unless TASKS=no. EXPORT is the example's path, FREEBLOCK the command's. LENGTH is `short`
# or `long`. A script ends with 0 if all is well, 77 if a program is missing that it needs, which it names, and else with
# an error.

set -euo pipefail
KIND=${KIND:-raw}
LENGTH=${LENGTH:-short}
TASKS=${TASKS:-yes}
PROOFS=$(cd "$(dirname "$0")" && pwd)
# Some proofs run in a directory of their own.
for program in EXPORT FREEBLOCK; do [ -z "${!program:-}" ] || printf -v "$program" %s "$(realpath -m "${!program}")"; done
WORK=$(mktemp -d "${TMPDIR:-/tmp}/freeblock-proof.XXXXXX")
SOCKET=$WORK/socket
CONTROL=$WORK/control
URI="nbd+unix:///?socket=$SOCKET"
DRIVE=${DRIVE:-$PROOFS/drive.toml}
server= fuse= DEVICE=

skip() { echo "skipped: $*"; exit 77; }
fail() { echo "$*" >&2; exit 1; }

# need PROGRAM PACKAGE
need() { command -v "$1" >/dev/null || skip "$1 not found; on Debian it is in $2"; }

need_root() { [ "$(id -u)" = 0 ] || skip "loop devices not found; they need root"; }

long() { [ "$LENGTH" = long ]; }

# Whether a scrub and a backup run beside the proof.
tasks() { [ "$TASKS" = yes ] && { [ "$KIND" = serve ] || [ "$KIND" = live ]; }; }

# up BYTES: serves a disk of at least so many bytes, of $WORK/disk.
up() {
  case $KIND in
    raw)
      [ -e "$WORK/disk" ] || truncate -s "$1" "$WORK/disk"
      # Its standard input is a pipe that nobody writes to and that ends with this script.
      [ -p "$WORK/hold" ] || { mkfifo "$WORK/hold"; exec 9<>"$WORK/hold"; }
      "$EXPORT" "$WORK/disk" "$SOCKET" <"$WORK/hold" >>"$WORK/log" 2>&1 & ;;
    emulate)
      "$FREEBLOCK" emulate "$DRIVE" --file "$WORK/disk" --socket "$SOCKET" >>"$WORK/log" 2>&1 & ;;
    serve)
      [ -e "$WORK/disk" ] || truncate -s "$1" "$WORK/disk"
      daemon "$WORK/disk" ;;
    live) daemon "emulated:$DRIVE,file=$WORK/disk" ;;
    *) echo "KIND=$KIND is none of raw, emulate, serve, live" >&2; exit 2 ;;
  esac
  server=$!
  # With a control socket the daemon is there when that is.
  local there=$SOCKET
  case $KIND in serve | live) there=$CONTROL ;; esac
  for _ in $(seq 1000); do
    [ -S "$there" ] && return
    kill -0 "$server" 2>/dev/null || { echo "the export does not start:" >&2; cat "$WORK/log" >&2; exit 1; }
    sleep 0.01
  done
  fail "the export does not listen"
}

# daemon DEVICE: also at the TCP address TCP, and with the page at the address WEB, if there are to be any.
daemon() {
  "$FREEBLOCK" serve --disk "d0=$1" --listen "unix:$SOCKET" ${TCP:+--listen "tcp:$TCP"} ${WEB:+--web "$WEB"} --state "$WORK/state" --control "$CONTROL" >>"$WORK/log" 2>&1 &
}

# down: ends it in order.
down() {
  [ -n "$server" ] || return 0
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
  rm -f "$SOCKET" "$CONTROL"
}

# ask COMMAND ...: a command to the daemon.
ask() { "$FREEBLOCK" "$@" --control "$CONTROL"; }

# field PYTHON: of the daemon's status, in which the first disk is `disk` and its tasks by kind are `tasks`.
field() {
  ask status --json | python3 -c '
import json, sys
disk = json.load(sys.stdin)["disks"][0]
tasks = {task["kind"]: task for task in disk["tasks"]}
print(eval(sys.argv[1]))' "$1"
}

# begin_scrub: reads the whole disk beside what comes.
begin_scrub() { tasks || return 0; ask scrub >>"$WORK/log"; }

# begin_backup [still]: of the disk as it is at this instant. `still`: nobody writes now, and what the backup has to hold,
# byte for byte, is put beside it.
begin_backup() {
  tasks || return 0
  local before
  before=$(field 'disk["status"]["written_bytes"]')
  if [ "${1:-}" = still ]; then cp --sparse=always "$WORK/disk" "$WORK/reference"; fi
  ask backup "$WORK/image" >>"$WORK/log"
  if [ "${1:-}" = still ]; then
    [ "$(field 'disk["status"]["written_bytes"]')" = "$before" ] || fail "somebody wrote while nobody was to"
  fi
}

# end_tasks: waits until both are done, says what they cost, and holds the restored image against what it has to be. The
# disk is down afterwards, and the restored one is $WORK/restored.
end_tasks() {
  if ! tasks; then down; return; fi
  for _ in $(seq 3000); do
    case $(field 'sorted(task["state"] for task in tasks.values())') in
      "['done', 'done']") break ;;
      *failed* | *cancelled* | *paused*) ask tasks >&2; fail "a task has not done what it was to" ;;
    esac
    sleep 0.2
  done
  ask tasks >>"$WORK/log"
  [ "$(field 'all(t["state"] == "done" and t["done"] == t["blocks"] and not t["bad_lbns"] for t in tasks.values())')" = True ] ||
    { ask tasks >&2; fail "the tasks do not end"; }
  field '"a scrub and a backup of {:.0f} MB each: {:.0f} MB read in gaps, {:.0f} in idle time, {:.0f} out of turn; the foreground lost {:.2f}% to idle time, {:.2f}% to detours".format(
    tasks["backup"]["bytes"] / 1e6, *(disk["status"]["background"][key] / 1e6 for key in ("gap_bytes", "idle_bytes", "promoted_bytes")),
    disk["status"]["idle"]["share"] * 100, disk["status"]["detours"]["share"] * 100)'
  down
  # Onto a disk of the same size that holds something else.
  rm -rf "$WORK/state"
  head -c 1M /dev/urandom >"$WORK/restored"
  truncate -s "$(stat -c %s "$WORK/disk")" "$WORK/restored"
  daemon "$WORK/restored"
  server=$!
  for _ in $(seq 1000); do [ -S "$CONTROL" ] && break; sleep 0.01; done
  ask restore "$WORK/image" --wait >>"$WORK/log"
  down
  if [ -e "$WORK/reference" ]; then
    cmp "$WORK/reference" "$WORK/restored" || fail "the restored disk is not what was backed up"
    cmp -s "$WORK/reference" "$WORK/disk" && fail "nobody has written meanwhile: this proves nothing"
    echo "restored: the disk of the instant at which the backup began, byte for byte"
  fi
  rm -f "$WORK/reference" "$WORK/image"
}

# holders DIRECTORY: what processes have open at or below it, with their numbers.
holders() {
  find /proc/[0-9]*/{cwd,root,exe,fd} -maxdepth 1 \( -lname "$1" -o -lname "$1/*" \) -printf '%p -> %l\n' 2>/dev/null || true
}

# unmount DIRECTORY: once no process has anything open there. A server that is said to have stopped may still be ending.
unmount() {
  local busy=
  for _ in $(seq 1200); do
    mountpoint -q "$1" || return 0
    busy=$(holders "$1")
    if [ -z "$busy" ] && busy=$(umount "$1" 2>&1); then return 0; fi
    sleep 0.05
  done
  echo "$1 is still in use: $busy" >&2
  return 1
}

# attach: the export as a block device, $DEVICE, by way of nbdfuse and a loop device.
attach() {
  mkdir -p "$WORK/fuse"
  nbdfuse "$WORK/fuse" "$URI" >>"$WORK/log" 2>&1 &
  fuse=$!
  for _ in $(seq 1000); do [ -e "$WORK/fuse/nbd" ] && break; sleep 0.01; done
  DEVICE=$(losetup --find --show "$WORK/fuse/nbd")
}

detach() {
  if [ -n "$DEVICE" ]; then losetup --detach "$DEVICE" || true; DEVICE=; fi
  if [ -n "$fuse" ]; then
    for _ in $(seq 200); do umount "$WORK/fuse" 2>/dev/null && break; sleep 0.05; done
    kill "$fuse" 2>/dev/null || true
    wait "$fuse" 2>/dev/null || true
    fuse=
  fi
}

# quiet DIRECTORY: what is mounted there is on the export as a whole, and stays as it is until `loud DIRECTORY`.
quiet() {
  tasks || return 0
  fsfreeze --freeze "$1"
  sync "$WORK/fuse/nbd"
}

loud() { tasks || return 0; fsfreeze --unfreeze "$1"; }

cleanup() {
  status=$?
  trap - EXIT
  set +e
  type at_end >/dev/null 2>&1 && at_end
  if mountpoint -q "$WORK/mnt" 2>/dev/null; then
    fsfreeze --unfreeze "$WORK/mnt" 2>/dev/null
    unmount "$WORK/mnt" || umount -l "$WORK/mnt"
  fi
  detach
  down
  if [ "$status" != 0 ] && [ "$status" != 77 ]; then echo "what the export said:" >&2; tail -20 "$WORK/log" >&2; fi
  rm -rf "$WORK"
  exit "$status"
}
trap cleanup EXIT
