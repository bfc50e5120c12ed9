#!/bin/bash
# The daemon in a small guest with a kernel of its own, under emulation, and its disk as /dev/ublkb0 of that kernel: ext4 is
# made on it and filled while a scrub runs; the daemon is killed while files are written and started again, and whoever
# writes notices a pause and nothing else; unmounted and checked, the whole disk is compared with what the kernel's NBD client
# reads of the same daemon, and with /dev/ublkb1, the background export. Ended in order the devices are gone, what was mounted and
# not yet written included on the disk.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the daemon runs in the guest, over a file there: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
need mkfs.ext4 e2fsprogs
"$FREEBLOCK" serve --disk "d0=$WORK/none" --listen "unix:$SOCKET" --ublk 0 2>&1 | tr -s ' \n' ' ' | grep -q 'without ublk' &&
  skip "ublk not found in $FREEBLOCK; make ublk builds it"

guest_parts
root_begin crc32c_generic crc16 mbcache jbd2 ext4 nbd ublk_drv
mkdir -p "$root/data"
cp "$FREEBLOCK" "$WORK/freeblock"
strip --strip-debug "$WORK/freeblock" 2>/dev/null || true
add "$WORK/freeblock"
if long; then echo 5; else echo 1; fi >"$root/etc/rounds"
root_end <<'INIT'
mount -t tmpfs -o size=400m tmpfs /data
ip link set lo up
[ -e /dev/ublk-control ] || die "look for /dev/ublk-control"
begin() {
  freeblock serve --disk d0=/data/disk --listen unix:/data/s --state /data/state --control /data/control --ublk 0 --background d0-background --background-ublk 1 >>/data/log 2>&1 &
  daemon=$!
  for i in $(seq 600); do [ ! -S /data/control ] || return 0; kill -0 $daemon 2>/dev/null || break; sleep 0.1; done
  cat /data/log
  die "start the daemon"
}
# In order: the device must be gone, and the daemon content.
end() { kill -TERM $daemon; wait $daemon || { cat /data/log; die "end the daemon"; }; [ ! -e /dev/ublkb0 ] && [ ! -e /dev/ublkb1 ] || die "let go of /dev/ublkb0 and /dev/ublkb1"; }
kill_daemon() { kill -9 $daemon; wait $daemon 2>/dev/null; rm -f /data/control; }
check() { (cd /mnt && sha256sum -s -c "$1") || die "compare $1"; }
mounted() { mount -t ext4 /dev/ublkb0 /mnt || { cat /data/log; die mount; }; }

truncate -s 192M /data/disk
begin
[ "$(blockdev --getsize64 /dev/ublkb0)" = $((192 << 20)) ] || die "compare sizes"
queue() { [ "$(cat /sys/block/ublkb0/queue/$1)" = "$2" ] || die "be told of $1: $(cat /sys/block/ublkb0/queue/$1)"; }
queue write_cache "write back"
queue fua 1
queue logical_block_size 512
[ "$(cat /sys/block/ublkb0/queue/discard_max_bytes)" -gt 0 ] || die "be told of discard"
[ "$(blockdev --getsize64 /dev/ublkb1)" = $((192 << 20)) ] || die "compare the size of /dev/ublkb1"
[ "$(blockdev --getro /dev/ublkb1)" = 1 ] || die "find /dev/ublkb1 read-only"
dd if=/dev/zero of=/dev/ublkb1 bs=4096 count=1 oflag=direct 2>/dev/null && die "be refused a write to /dev/ublkb1"
freeblock scrub --control /data/control >/dev/null || die scrub
mkfs.ext4 -q -F /dev/ublkb0 || die mkfs
mounted
mkdir /mnt/a && cp /bin/busybox /lib/x86_64-linux-gnu/* /mnt/a/ || die copy
(cd /mnt && find a -type f | xargs sha256sum >/mnt/a.sums)
sync
echo "GUEST: filled"

# Another may not have it.
truncate -s 8M /data/other
freeblock serve --disk d1=/data/other --listen unix:/data/t --ublk 0 >/data/other.log 2>&1 && die "be refused"
grep -q "give another number" /data/other.log || { cat /data/other.log; die "be told of another number"; }

round=0
while [ $round -lt $(cat /etc/rounds) ]; do
  round=$((round + 1))
  (for i in 1 2 3; do cp -r /mnt/a /mnt/b$round.$i || exit 1; sync; done) &
  copier=$!
  sleep 0.$((round * 3 % 10))
  kill_daemon
  begin
  wait $copier || { dmesg | tail -20; die "copy while the daemon is killed"; }
  for i in 1 2 3; do cp /mnt/a.sums /mnt/b$round.$i/; (cd /mnt/b$round.$i && sed 's, a/, ,' a.sums | sha256sum -s -c) || die "compare copy $i of round $round"; done
  rm -r /mnt/b$round.1 /mnt/b$round.2 /mnt/b$round.3
done
echo "GUEST: taken over $round times"

fstrim /mnt || die fstrim
check a.sums
umount /mnt || die umount
e2fsck -fn /dev/ublkb0 || die e2fsck
nbd-client -unix /data/s /dev/nbd0 || die nbd-client
cmp /dev/ublkb0 /dev/nbd0 || die "compare the disk with what NBD reads"
mount -t ext4 -o ro /dev/nbd0 /mnt || die "mount over NBD"
check a.sums
umount /mnt
nbd-client -d /dev/nbd0
echo "GUEST: the same over NBD"
# Its first requests wait while the daemon is killed, and are answered by the next one.
(dd if=/dev/ublkb1 iflag=direct bs=1M 2>/dev/null | sha256sum >/data/background) &
reader=$!
sleep 0.2
kill_daemon
begin
wait $reader || die "read /dev/ublkb1 while the daemon is killed"
sha256sum </dev/ublkb0 | cmp - /data/background || die "compare the disk with its background device"
freeblock status --control /data/control | grep -q "export      background: [1-9]" || die "find the reads of /dev/ublkb1 in the background"
echo "GUEST: the same at the background device"
end

# Mounted, written to and not synced, and ended: the kernel writes what it has before it lets go.
begin
mounted
check a.sums
cp -r /mnt/a /mnt/late || die "copy late"
end
dmesg | grep "potential data loss" && die "write all before the end"
timeout -s KILL 60 freeblock serve --disk d0=/data/disk --listen unix:/data/s --ublk 0 >/data/other.log 2>&1 && die "be refused what is still mounted"
grep -q "a program still has it open" /data/other.log || { cat /data/other.log; die "be told who holds it"; }
echo "GUEST: refused while it is held open"
umount /mnt || die "umount what has no device"
begin
e2fsck -fp /dev/ublkb0; [ $? -le 1 ] || die "e2fsck after the end"
mounted
check a.sums
cp /mnt/a.sums /mnt/late/ && (cd /mnt/late && sed 's, a/, ,' a.sums | sha256sum -s -c) || die "compare what was late"
umount /mnt
e2fsck -fn /dev/ublkb0 || die "e2fsck at last"
end
cat /data/log
echo "GUEST: well"
poweroff -f
INIT
boot 1 -m 1024 -nic none
for _ in $(seq "$(long && echo 900 || echo 600)"); do kill -0 "$guest" 2>/dev/null || break; sleep 1; done
says 1 well || not 1 "the guest does not come to its end"
wait "$guest" || true
guest=
echo "ublk: ext4 on /dev/ublkb0 beside a scrub, $(grep -ao 'taken over [0-9]* times' "$WORK/console.1") from a daemon that was killed; NBD and /dev/ublkb1 read the same, clean; ended in order both are gone, with all that was written"
