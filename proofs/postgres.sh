#!/bin/bash
# PostgreSQL under pgbench on ext4 on the export; killed in the middle, recovered, and its invariant held. With tasks a
# backup begins in the middle as well, unannounced: what is restored of it is recovered in the same way, and holds what had
# been committed by that instant.
. "$(dirname "$0")/lib.sh"
need_root
need nbdfuse nbdfuse
need mkfs.ext4 e2fsprogs
need runuser util-linux
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -n "$bin" ] && [ -x "$bin/initdb" ] || skip "initdb not found; on Debian it is in postgresql"
id postgres >/dev/null 2>&1 || skip "user postgres not found; Debian's package postgresql makes it"
if long; then seconds=60 disk=512M size=400M; else seconds=3 disk=256M size=230M; fi

pg() { runuser -u postgres -- "$@"; }
sql() { pg "$bin/psql" -h "$WORK/run" -qAt postgres -c "$1"; }
start() {
  pg "$bin/pg_ctl" -s -w -t 120 -D "$WORK/mnt/data" -l "$WORK/run/log" \
    -o "-k $WORK/run -c listen_addresses= -c shared_buffers=8MB -c max_wal_size=64MB -c checkpoint_timeout=30s" start
}
at_end() { pg "$bin/pg_ctl" -s -D "$WORK/mnt/data" -m immediate stop >/dev/null 2>&1; }
CLIENTS=4
bench() { pg "$bin/pgbench" -h "$WORK/run" -n -c "$CLIENTS" -j 2 "$@" postgres; }
committed() { sql "select count(*) from pgbench_history"; }

# recovered DEVICE LEAST MOST: mounts what a crash has left; sets `found` to how many transactions are there.
recovered() {
  mount "$1" "$WORK/mnt" ${4:+-o "$4"}
  rm -f "$WORK/mnt/data/postmaster.pid"
  start
  found=$(committed)
  [ "$found" -ge "$2" ] && [ "$found" -le "$3" ] || fail "$found transactions are there, of at least $2 and at most $3"
  sums=$(sql "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches) and (select sum(bbalance) from pgbench_branches) = (select coalesce(sum(delta), 0) from pgbench_history)")
  [ "$sums" = t ] || fail "the balances disagree"
  pg "$bin/pg_ctl" -s -w -D "$WORK/mnt/data" -m fast stop
  unmount "$WORK/mnt"
  e2fsck -fn "$1" >"$WORK/check" 2>&1 || { cat "$WORK/check" >&2; exit 1; }
}

up $disk
attach
mkfs.ext4 -q -F "$DEVICE" $size
mkdir -p "$WORK/mnt"
mount "$DEVICE" "$WORK/mnt"
chmod 755 "$WORK"
mkdir "$WORK/mnt/data" "$WORK/run"
chown postgres "$WORK/mnt/data" "$WORK/run"
pg "$bin/initdb" -D "$WORK/mnt/data" --no-sync -A trust >/dev/null
sync
start
pg "$bin/pgbench" -h "$WORK/run" -i -q -s 1 postgres >/dev/null 2>&1
begin_scrub
bench -T "$seconds" >"$WORK/run/bench" 2>&1 & pid=$!
sleep 1
least=$(committed)
begin_backup
# A commit is on the disk before others see it: each client may have one that was not counted.
most=$(($(committed) + CLIENTS))
wait "$pid" || { cat "$WORK/run/bench" >&2; exit 1; }
# Killed, with transactions under way: what was committed is there, and the sums agree.
bench -T 60 >/dev/null 2>&1 & pid=$!
sleep 1
before=$(committed)
pg "$bin/pg_ctl" -s -D "$WORK/mnt/data" -m immediate stop
wait "$pid" || true
unmount "$WORK/mnt"
detach
end_tasks
up $disk
attach
recovered "$DEVICE" "$before" 1000000000
echo "postgres: $(grep -o 'tps = [0-9.]*' "$WORK/run/bench" | head -1), $found transactions, balances agree after a crash, ext4 clean"
detach
down
if tasks; then
  # A backup that had begun earlier or later would hold fewer or more.
  recovered "$WORK/restored" "$least" "$most" loop
  echo "postgres: restored, it recovers to the $found transactions of its instant (between $least and $most), balances agree, ext4 clean"
fi
