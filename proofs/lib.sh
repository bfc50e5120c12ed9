# What the proofs share: an export of ours, and other people's programs on it. Sourced, not run.
#
# KIND says what serves: `raw` (the example of crates/server, a file with nothing between), `emulate` (a drive in real time)
# or `serve` (the daemon). EXPORT is the example's path, FREEBLOCK the command's. LENGTH is `short` or `long`.
# A script ends with 0 if all is well, 77 if a program is missing that it needs, which it names, and else with an error.

set -euo pipefail
KIND=${KIND:-raw}
LENGTH=${LENGTH:-short}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/freeblock-proof.XXXXXX")
SOCKET=$WORK/socket
URI="nbd+unix:///?socket=$SOCKET"
DRIVE=${DRIVE:-quantum-atlas-10k}
server= fuse= DEVICE=

skip() { echo "skipped: $*"; exit 77; }

# need PROGRAM PACKAGE
need() { command -v "$1" >/dev/null || skip "$1 not found; on Debian it is in $2"; }

need_root() { [ "$(id -u)" = 0 ] || skip "loop devices not found; they need root"; }

long() { [ "$LENGTH" = long ]; }

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
      "$FREEBLOCK" serve --disk "d0=$WORK/disk" --listen "unix:$SOCKET" >>"$WORK/log" 2>&1 & ;;
    *) echo "KIND=$KIND is none of raw, emulate, serve" >&2; exit 2 ;;
  esac
  server=$!
  for _ in $(seq 1000); do
    [ -S "$SOCKET" ] && return
    kill -0 "$server" 2>/dev/null || { echo "the export does not start:" >&2; cat "$WORK/log" >&2; exit 1; }
    sleep 0.01
  done
  echo "the export does not listen" >&2; exit 1
}

# down: ends it in order.
down() {
  [ -n "$server" ] || return 0
  kill -TERM "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
  rm -f "$SOCKET"
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

cleanup() {
  status=$?
  trap - EXIT
  set +e
  type at_end >/dev/null 2>&1 && at_end
  if mountpoint -q "$WORK/mnt" 2>/dev/null; then umount "$WORK/mnt" || umount -l "$WORK/mnt"; fi
  detach
  down
  if [ "$status" != 0 ] && [ "$status" != 77 ]; then echo "what the export said:" >&2; tail -20 "$WORK/log" >&2; fi
  rm -rf "$WORK"
  exit "$status"
}
trap cleanup EXIT
