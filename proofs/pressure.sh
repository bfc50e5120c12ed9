#!/bin/bash
# A machine that mounts its own disk, and has little memory: a guest's daemon serves the guest's disk, the guest's kernel has it as
# /dev/nbd0 with an ext4 on it, and nearly all of the other memory is taken. The guest's swap is a file on that ext4, if SWAP is not
# empty. Writers dirty several times what is left, so that the kernel frees memory by writing through the daemon, and programs that
# are each smaller than the daemon need more than there is, so that the kernel kills. All writers end, and the bytes are those
# that were written. Each thread of the daemon is known to the kernel as one that writes, all of its memory is locked, and the kernel
# kills other programs.
# With LOCK= the daemon has none of this, and the proof must fail: the kernel kills the daemon, and what is on its disk cannot be read.
# Without the crowd of small programs that run passed, too, with swap and without: the kernel found other memory to free, and had to
# kill by chance at most.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the daemon runs in the guest, over a disk there: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
need mkfs.ext4 e2fsprogs

guest_parts
root_begin crc32c_generic crc16 mbcache jbd2 ext4 nbd virtio_blk
cp "$FREEBLOCK" "$WORK/freeblock"
strip --strip-debug "$WORK/freeblock" 2>/dev/null || true
add "$WORK/freeblock"
if long; then echo 5; else echo 1; fi >"$root/etc/rounds"
echo "${LOCK---lock-memory}" >"$root/etc/lock"
echo "${SWAP-96}" >"$root/etc/swap"
root_end <<'INIT'
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; sleep 1; done
mkdir -p /hog
mount -t tmpfs -o size=100% tmpfs /hog
ip link set lo up
lock=$(cat /etc/lock)
freeblock serve --disk d0=/dev/vda --listen unix:/run/s $lock >/run/log 2>&1 &
daemon=$!
for i in $(seq 600); do [ ! -S /run/s ] || break; kill -0 $daemon 2>/dev/null || break; sleep 0.1; done
[ -S /run/s ] || { cat /run/log; die "start the daemon"; }
nbd-client -unix /run/s /dev/nbd0 || die nbd-client
# Nothing is zeroed: inode tables are not, and the journal is small.
mkfs.ext4 -q -F -E nodiscard,lazy_itable_init=1,lazy_journal_init=1 -J size=4 /dev/nbd0 || die mkfs
mount -t ext4 /dev/nbd0 /mnt || die mount
swap=$(cat /etc/swap)
if [ -n "$swap" ]; then
  dd if=/dev/zero of=/mnt/swap bs=1M count=$swap 2>/dev/null && mkswap /mnt/swap >/dev/null && swapon /mnt/swap || die "swap on the disk"
fi
if [ -n "$lock" ]; then
  # PF_MEMALLOC_NOIO of include/linux/sched.h, in the seventh field behind the name.
  for task in /proc/$daemon/task/*/stat; do
    set -- $(sed 's/.*) //' "$task")
    [ $(($7 & 0x80000)) != 0 ] || die "mark the thread $(cat "$task")"
  done
  [ "$(awk '/^VmLck:/ { print $2 }' /proc/$daemon/status)" -gt 4096 ] || die "lock the memory"
  grep -i warn /run/log && die "start without a warning"
fi
left=32
# The size of each file in MiB; a file repeats one MiB.
mib=40
file() { for n in $(seq $mib); do cat /run/$1 || return 1; done; }
# Memory runs out at times, and the kernel kills one of these programs, which begins again. It must not kill the daemon.
lives() { [ -e /proc/$daemon/exe ]; }
write() { until file $1 >/mnt/$1; do lives || return 1; sleep 1; done; }
for round in $(seq "$(cat /etc/rounds)"); do
  rm -f /hog/hog
  for i in 1 2 3 4; do yes "file $i of round $round" | head -c 1048576 >/run/$i; done
  free=$(awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo)
  dd if=/dev/zero of=/hog/hog bs=1M count=$((free - left)) 2>/dev/null || die "take memory"
  # Programs that are each smaller than the daemon need more than there is, swap included.
  crowd=$(($(awk '/^(MemAvailable|SwapFree):/ { kib += $2 } END { print int(kib / 2048) }' /proc/meminfo) + 16))
  for i in $(seq $crowd); do (dd if=/dev/zero bs=2M count=1 2>/dev/null | sleep 3600) & done
  writers=
  for i in 1 2 3 4; do
    write $i &
    writers="$writers $!"
  done
  i=0
  for writer in $writers; do
    i=$((i + 1))
    wait $writer || write $i
    lives || { cat /run/log; dmesg | grep "Killed process $daemon"; die "keep the daemon"; }
  done
  killall sleep
  sync
  echo 3 >/proc/sys/vm/drop_caches
  rm /hog/hog
  for i in 1 2 3 4; do file $i | cmp - /mnt/$i || die "compare $i"; done
  echo "round $round: $(dmesg | grep -c "Killed process") programs killed, $free MiB were free, $left of them left, $(awk '/^pswpout/ { print int($2 / 256) }' /proc/vmstat) MiB were swapped out, of the daemon $(awk '/^VmSwap/ { print $2 }' /proc/$daemon/status) KiB"
done
[ -z "$swap" ] || swapoff /mnt/swap || die swapoff
umount /mnt || die umount
e2fsck -fn /dev/nbd0 || die e2fsck
nbd-client -d /dev/nbd0
echo "GUEST: written under pressure, rounds: $(cat /etc/rounds)"
poweroff -f
INIT
truncate -s 384M "$WORK/data.img"
boot 1 -m 320 -nic none -drive "file=$WORK/data.img,format=raw,if=none,id=data" -device virtio-blk-pci,drive=data
for _ in $(seq 1800); do kill -0 "$guest" 2>/dev/null || break; sleep 1; done
kill -0 "$guest" 2>/dev/null && not 1 "the guest does not end: its kernel waits for a daemon that waits for the kernel"
wait "$guest" || true
guest=
grep -ao 'round [0-9]*: .*' "$WORK/console.1" | tr -d '\r' || true
says 1 "written under pressure" || not 1 "the file system is not as it was written"
echo "pressure: a guest with 320 MiB, all but 32 taken, has written 160 MiB in a round to the ext4 on a disk of its own daemon; $(grep -ao 'rounds: [0-9]*' "$WORK/console.1")"
