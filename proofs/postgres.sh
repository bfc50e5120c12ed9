#!/bin/bash
# PostgreSQL under pgbench on ext4 on the export; killed in the middle, recovered, and its invariant held.
. "$(dirname "$0")/lib.sh"
need_root
need nbdfuse nbdfuse
need mkfs.ext4 e2fsprogs
need runuser util-linux
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
[ -n "$bin" ] && [ -x "$bin/initdb" ] || skip "initdb not found; on Debian it is in postgresql"
id postgres >/dev/null 2>&1 || skip "user postgres not found; Debian's package postgresql makes it"
seconds=$(long && echo 60 || echo 2)
up 1G
attach
mkfs.ext4 -q -F "$DEVICE" 800M
mkdir -p "$WORK/mnt"
mount "$DEVICE" "$WORK/mnt"
chmod 755 "$WORK"
mkdir "$WORK/mnt/data" "$WORK/run"
chown postgres "$WORK/mnt/data" "$WORK/run"
pg() { runuser -u postgres -- "$@"; }
ask() { pg "$bin/psql" -h "$WORK/run" -qAt postgres -c "$1"; }
start() { pg "$bin/pg_ctl" -s -w -t 120 -D "$WORK/mnt/data" -l "$WORK/run/log" -o "-k $WORK/run -c listen_addresses= -c shared_buffers=8MB -c checkpoint_timeout=30s" start; }
at_end() { pg "$bin/pg_ctl" -s -D "$WORK/mnt/data" -m immediate stop >/dev/null 2>&1; }
pg "$bin/initdb" -D "$WORK/mnt/data" --no-sync -A trust >/dev/null
sync
start
pg "$bin/pgbench" -h "$WORK/run" -i -q -s 1 postgres >/dev/null 2>&1
pg "$bin/pgbench" -h "$WORK/run" -n -c 4 -j 2 -T "$seconds" postgres >"$WORK/run/bench" 2>&1 || { cat "$WORK/run/bench" >&2; exit 1; }
# Killed, with transactions under way: what was committed is there, and the sums agree.
pg "$bin/pgbench" -h "$WORK/run" -n -c 4 -T 60 postgres >/dev/null 2>&1 & bench=$!
sleep 1
before=$(ask "select count(*) from pgbench_history")
pg "$bin/pg_ctl" -s -D "$WORK/mnt/data" -m immediate stop
wait "$bench" || true
umount "$WORK/mnt"
detach
down
up 1G
attach
mount "$DEVICE" "$WORK/mnt"
start
after=$(ask "select count(*) from pgbench_history")
[ "$after" -ge "$before" ] || { echo "$before committed, $after there" >&2; exit 1; }
sums=$(ask "select (select sum(abalance) from pgbench_accounts) = (select sum(bbalance) from pgbench_branches) and (select sum(bbalance) from pgbench_branches) = (select coalesce(sum(delta), 0) from pgbench_history)")
[ "$sums" = t ] || { echo "the balances disagree" >&2; exit 1; }
pg "$bin/pg_ctl" -s -w -D "$WORK/mnt/data" -m fast stop
umount "$WORK/mnt"
e2fsck -fn "$DEVICE" >"$WORK/check" 2>&1 || { cat "$WORK/check" >&2; exit 1; }
echo "postgres: $(grep -o 'tps = [0-9.]*' "$WORK/run/bench" | head -1), $after transactions, balances agree after a crash, ext4 clean"
detach
down
