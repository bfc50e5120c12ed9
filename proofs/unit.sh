#!/bin/bash
# The service of the Debian package with its drop-in for ublk, freeblock-ublk.conf: a Debian with systemd boots in a guest, the package in
# it, and the drop-in is installed by the lines at its head. The service serves a disk of the guest as /dev/ublkb0, on which an
# ext4 is made, written, mounted again and compared; it writes a task's file below `targets`, has the capabilities of the drop-in and no
# other, and logs no warning. Stopped, it has removed the device. With any one of these capabilities taken away it does not get there, so
# that none can be left out; this is also how this proof was seen to fail.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the daemon runs in the guest, over a disk there: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/debian-lib.sh"
need mkfs.ext4 e2fsprogs
"$FREEBLOCK" serve --disk "d0=$WORK/none" --listen "unix:$SOCKET" --ublk 0 2>&1 | tr -s ' \n' ' ' | grep -q 'without ublk' &&
  skip "ublk not found in $FREEBLOCK; make ublk builds it"

guest_parts
system=$WORK/system
debian_guest "$system"
printf 'state = "/var/lib/freeblock"\ncontrol = "/run/freeblock/control.sock"\ntargets = ["/var/backups/freeblock"]\n[[disk]]\nname = "data"\ndevice = "/dev/disk/by-id/virtio-DATA"\nlisten = ["unix:/run/freeblock/d0.sock"]\nublk = 0\n' \
  >"$system/etc/freeblock/freeblock.toml"
cat >"$system/check/check" <<'CHECK'
#!/bin/bash
say() { echo "GUEST: $*" >/dev/ttyS0; }
die() {
  { echo "$*"; systemctl --no-pager status freeblock.service; journalctl --no-pager -b | tail -60; } >/dev/ttyS0 2>&1
  say "$*, which failed"
  systemctl --no-block poweroff
  exit 1
}
# The commands at the head of the drop-in, but the restart.
drop_in=/usr/share/freeblock/freeblock-ublk.conf
sed -n 's/^#  *\(install .*\)/\1/p' "$drop_in" | sh && [ -e /etc/systemd/system/freeblock.service.d/ublk.conf ] || die "install the drop-in"
# attempt: starts the service, and uses the disk; what failed is on standard output.
attempt() {
  local pid task
  systemctl start freeblock.service >&2 || { echo start; return; }
  for _ in $(seq 100); do [ ! -b /dev/ublkb0 ] || break; sleep 0.2; done
  [ -b /dev/ublkb0 ] || { echo "make /dev/ublkb0"; return; }
  # The directory belongs to the user that the service has without the drop-in.
  freeblock scrub --sectors 4096 --checksums /var/backups/freeblock/sums --wait >&2 && [ -s /var/backups/freeblock/sums ] || { echo "write below the targets"; return; }
  pid=$(systemctl show -p MainPID --value freeblock.service)
  awk '/^CapBnd:/ { print $2 }' "/proc/$pid/status" >/check/bound
  # Of each thread PF_MEMALLOC_NOIO of include/linux/sched.h, in the seventh field behind the name.
  for task in /proc/$pid/task/*/stat; do
    set -- $(sed 's/.*) //' "$task")
    [ $(($7 & 0x80000)) != 0 ] || { echo "have the kernel know that it writes its pages"; return; }
  done
  mkfs.ext4 -q -F /dev/ublkb0 >&2 && mount /dev/ublkb0 /mnt && cp -r /usr/lib/x86_64-linux-gnu/security /usr/bin/bash /mnt/ && umount /mnt || { echo "make a file system"; return; }
  e2fsck -fn /dev/ublkb0 >&2 && mount -o ro /dev/ublkb0 /mnt || { echo "mount it again"; return; }
  diff -r /usr/lib/x86_64-linux-gnu/security /mnt/security >&2 && cmp /usr/bin/bash /mnt/bash >&2 || echo compare
  umount /mnt
}
# tries: an attempt, and the end of the service; what failed is in `failed`.
tries() {
  local since=$(date '+%F %T')
  systemctl daemon-reload
  systemctl reset-failed freeblock.service 2>/dev/null
  failed=$(attempt)
  systemctl stop freeblock.service || failed=${failed:-stop}
  [ ! -e /dev/ublkb0 ] || failed=${failed:-"remove /dev/ublkb0"}
  journalctl --no-pager -o cat -u freeblock.service --since "$since" >/check/log
  [ -n "$failed" ] || ! grep -E 'WARN|ERROR' /check/log || failed="serve without a warning"
}
all=$(sed -n 's/^CapabilityBoundingSet=//p' "$drop_in")
for name in $all; do
  # An empty assignment takes away what the drop-in gave.
  printf '[Service]\nRestart=no\nCapabilityBoundingSet=\nCapabilityBoundingSet=%s\n' "${all//$name/}" >/etc/systemd/system/freeblock.service.d/without.conf
  tries
  [ -n "$failed" ] || die "fail without $name"
  say "without $name it does not $failed"
done
rm /etc/systemd/system/freeblock.service.d/without.conf
tries
[ -z "$failed" ] || die "$failed"
# The kernel's numbers of these capabilities, include/uapi/linux/capability.h.
mask=0
for name in $all; do
  case $name in CAP_DAC_OVERRIDE) number=1 ;; CAP_SYS_ADMIN) number=21 ;; CAP_SYS_RESOURCE) number=24 ;; *) die "know $name" ;; esac
  mask=$((mask | 1 << number))
done
[ $((0x$(cat /check/bound))) = "$mask" ] || die "have the capabilities of the drop-in alone: $(cat /check/bound)"
say "the unit is well"
systemctl --no-block poweroff
CHECK
debian_image "$system"
boot 1 $disks
for _ in $(seq 1800); do kill -0 "$guest" 2>/dev/null || break; sleep 1; done
says 1 "the unit is well" || not 1 "the unit does not serve as its drop-in says"
wait "$guest" || true
guest=
grep -ao 'GUEST: without .*' "$WORK/console.1" | tr -d '\r' | sed 's/^GUEST: /unit: /'
echo "unit: freeblock.service with freeblock-ublk.conf serves /dev/ublkb0 to a file system, has three capabilities, needs each, and removes the device when it is stopped"
