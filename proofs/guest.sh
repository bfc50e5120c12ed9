#!/bin/bash
# A small guest with a kernel of its own, under emulation: that kernel's NBD client connects to the daemon over TCP, ext4 is
# made, filled, checked and found again over several connections; then the power is cut while the guest writes. The next
# boot recovers: all that was synced is there. A backup begins just before the cut.
#
# GUEST is the directory with the guest's parts, which Debian's packages fill when it is empty (`guest_parts`).
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || [ "$KIND" = live ] || skip "the guest comes over TCP, to the daemon: KIND=serve or live"
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
need mkfs.ext4 e2fsprogs
need python3 python3
GUEST=${GUEST:-$WORK/guest}
MODULES="crc32c_generic failover net_failover virtio_net crc16 mbcache jbd2 ext4 nbd"

# guest_parts: Debian's newest kernel here and its NBD client, unpacked and not installed.
guest_parts() {
  [ -e "$GUEST/there" ] && return
  command -v apt-get >/dev/null || skip "apt-get not found, and no kernel in $GUEST"
  mkdir -p "$GUEST/debs"
  local meta kernel
  for meta in linux-image-6.12-amd64 linux-image-amd64; do
    kernel=$(apt-cache depends "$meta" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)$/\1/p' | head -1)
    [ -z "$kernel" ] || break
  done
  [ -n "$kernel" ] || skip "no kernel among Debian's packages; apt-get update may help"
  (cd "$GUEST/debs" && timeout 300 apt-get download -qq "$kernel" nbd-client libnl-3-200 libnl-genl-3-200) >>"$WORK/log" 2>&1 ||
    skip "$kernel and nbd-client cannot be downloaded"
  for deb in "$GUEST"/debs/*.deb; do dpkg-deb -x "$deb" "$GUEST"; done
  rm -r "$GUEST/debs"
  touch "$GUEST/there"
}

# add PROGRAM: with the libraries that it needs, into the guest's memory file system.
add() {
  cp "$1" "$root/bin/"
  LD_LIBRARY_PATH=$GUEST/lib/x86_64-linux-gnu:$GUEST/usr/lib/x86_64-linux-gnu ldd "$1" |
    grep -o '/[^ )]*' | while read -r library; do
    mkdir -p "$root/$(dirname "${library#"$GUEST"}")"
    cp -L "$library" "$root/${library#"$GUEST"}"
  done
}

# make_guest: what it boots from.
make_guest() {
  root=$WORK/root
  mkdir -p "$root"/{bin,dev,proc,sys,mnt,modules,etc}
  cp "$(command -v busybox)" "$root/bin/busybox"
  PATH="$PATH:/usr/sbin:/sbin"
  add "$(command -v mkfs.ext4)"
  add "$(command -v e2fsck)"
  add "$(ls "$GUEST"/sbin/nbd-client "$GUEST"/usr/sbin/nbd-client 2>/dev/null | head -1)"
  for module in $MODULES; do
    file=$(find "$GUEST" -name "$module.ko*" | head -1)
    case $file in
      *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
      *.ko) cp "$file" "$root/modules/" ;;
      '') ;; # built in
    esac
  done
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for word in $(cat /proc/cmdline); do case $word in boot=*) boot=${word#boot=} ;; port=*) port=${word#port=} ;; esac; done
die() { echo "GUEST: $*, which failed"; poweroff -f; }
for module in MODULES; do [ ! -e /modules/$module.ko ] || insmod /modules/$module.ko || die insmod $module; done
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
  sed -i "s/MODULES/$MODULES/" "$root/init"
  chmod +x "$root/init"
  (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$WORK/initramfs"
}

# boot N, with a kernel that does not mistake a busy host for a broken timer: begins it; `guest` is its process, and it writes to $WORK/console.N.
boot() {
  qemu-system-x86_64 -machine accel=tcg -cpu max -m 512 -smp 1 -nographic -no-reboot -kernel "$GUEST"/boot/vmlinuz-* \
    -initrd "$WORK/initramfs" -append "console=ttyS0 quiet panic=-1 no_timer_check boot=$1 port=$port" \
    -netdev user,id=net -device virtio-net-pci,netdev=net,romfile= </dev/null >"$WORK/console.$1" 2>&1 &
  guest=$!
}

at_end() { [ -z "${guest:-}" ] || kill -9 "$guest" 2>/dev/null; }

guest_parts
make_guest
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
TCP=127.0.0.1:$port
up 512M
begin_scrub
boot 1
for _ in $(seq 3000); do
  grep -q 'GUEST: synced' "$WORK/console.1" && break
  kill -0 "$guest" 2>/dev/null || { tail -40 "$WORK/console.1" >&2; fail "the guest has ended"; }
  sleep 0.1
done
grep -q 'GUEST: synced' "$WORK/console.1" || { tail -40 "$WORK/console.1" >&2; fail "the guest takes too long"; }
begin_backup
sleep "$(long && echo 5 || echo 1)"
kill -9 "$guest"
wait "$guest" 2>/dev/null || true
boot 2
wait "$guest" || true
guest=
grep -q 'GUEST: recovered' "$WORK/console.2" || { tail -40 "$WORK/console.2" >&2; fail "the guest does not recover"; }
echo "guest: ext4 by the kernel's own NBD client, over 1 and 4 connections; after its power was cut all that was synced is there"
end_tasks
if tasks && [ "$(id -u)" = 0 ]; then
  mkdir -p "$WORK/mnt"
  mount -o loop "$WORK/restored" "$WORK/mnt"
  (cd "$WORK/mnt" && sha256sum --quiet -c a.sums b.sums)
  umount "$WORK/mnt"
  e2fsck -fn "$WORK/restored" >"$WORK/check" 2>&1 || { cat "$WORK/check" >&2; fail "the restored ext4 is not clean"; }
  echo "guest: the restored disk has all that was synced when the backup began, and is clean"
fi
