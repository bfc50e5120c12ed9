#!/bin/bash
# A small guest with a kernel of its own, under emulation: that kernel's NBD client connects to the daemon over TCP, ext4 is
# made, filled, checked and found again over several connections; then the power is cut while the guest writes. The next
# boot recovers: all that was synced is there. A backup begins just before the cut.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || [ "$KIND" = live ] || skip "the guest comes over TCP, to the daemon: KIND=serve or live"
. "$(dirname "$0")/guest-lib.sh"
need mkfs.ext4 e2fsprogs
need python3 python3

guest_parts
root_begin crc32c_generic failover net_failover virtio_net crc16 mbcache jbd2 ext4 nbd
root_end <<'INIT'
ip link set lo up
ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0 || die ip
attach() { nbd-client 10.0.2.2 "$port" /dev/nbd0 -C "$1" || die nbd-client; }
check() { (cd /mnt && sha256sum -s -c "$1") || die "compare $1"; }
if [ "$boot" = 1 ]; then
  attach 1
  mkfs.ext4 -q -F /dev/nbd0 300M || die mkfs
  mount -t ext4 /dev/nbd0 /mnt || die mount
  mkdir /mnt/a && cp /bin/busybox /lib/x86_64-linux-gnu/* /mnt/a/ || die copy
  (cd /mnt && find a -type f | xargs sha256sum >/mnt/a.sums)
  umount /mnt || die umount
  e2fsck -fn /dev/nbd0 || die e2fsck
  nbd-client -d /dev/nbd0
  attach 4
  mount -t ext4 /dev/nbd0 /mnt || die "mount again"
  check a.sums
  mkdir /mnt/b && for i in 1 2 3 4; do cp -r /mnt/a /mnt/b/$i || die "copy on the disk"; done
  rm -r /mnt/b/2
  fstrim /mnt || die fstrim
  (cd /mnt && find b -type f | xargs sha256sum >/mnt/b.sums)
  sync
  echo "GUEST: synced"
  while :; do cp -r /mnt/a /mnt/c; rm -r /mnt/c; done
else
  attach 4
  mount -t ext4 /dev/nbd0 /mnt || die "mount after the cut"
  check a.sums
  check b.sums
  umount /mnt || die umount
  e2fsck -fn /dev/nbd0 || die "e2fsck after the cut"
  nbd-client -d /dev/nbd0
  echo "GUEST: recovered"
fi
poweroff -f
INIT
NETWORK="-m 512 -netdev user,id=net -device virtio-net-pci,netdev=net,romfile="
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
TCP=127.0.0.1:$port
up 512M
begin_scrub
boot 1 $NETWORK
for _ in $(seq 3000); do
  says 1 synced && break
  kill -0 "$guest" 2>/dev/null || not 1 "the guest has ended"
  sleep 0.1
done
says 1 synced || not 1 "the guest takes too long"
begin_backup
sleep "$(long && echo 5 || echo 1)"
kill -9 "$guest"
wait "$guest" 2>/dev/null || true
boot 2 $NETWORK
wait "$guest" || true
guest=
says 2 recovered || not 2 "the guest does not recover"
echo "guest: ext4 by the kernel's own NBD client, over 1 and 4 connections; after its power was cut all that was synced is there"
end_tasks
if tasks && [ "$(id -u)" = 0 ]; then
  mkdir -p "$WORK/mnt"
  mount -o loop "$WORK/restored" "$WORK/mnt"
  (cd "$WORK/mnt" && sha256sum --quiet -c a.sums b.sums)
  unmount "$WORK/mnt"
  e2fsck -fn "$WORK/restored" >"$WORK/check" 2>&1 || { cat "$WORK/check" >&2; fail "the restored ext4 is not clean"; }
  echo "guest: the restored disk has all that was synced when the backup began, and is clean"
fi
