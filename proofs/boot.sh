#!/bin/bash
# A disk that is mounted at boot, as docs/SERVE.md has it: a Debian with systemd boots in a guest, the package in it. A second disk
# of the guest is in the configuration, /dev/nbd0 and a line of /etc/fstab depend on the daemon. Files are written, the last ones not
# synced; reboot: the file system is mounted, no file is missing, a scrub goes on, and the log of the shutdown has the order of
# unmounting, disconnecting, ending the daemon.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the daemon runs in the guest, over a disk there: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
. "$(dirname "$0")/debian-lib.sh"
need mkfs.ext4 e2fsprogs

guest_parts
system=$WORK/system
debian_guest "$system"

sed -n '/^```fstab$/,/^```$/p' "$PROOFS/../docs/SERVE.md" | grep -v '^```' >"$system/check/fstab"
[ "$(grep -c nbd0 "$system/check/fstab")" = 1 ] || fail "docs/SERVE.md has no line for /etc/fstab"
# The disk of docs/SERVE.md, by the name that the guest's second disk has.
sed -n '/^```toml$/,/^```$/p' "$PROOFS/../docs/SERVE.md" | grep -v '^```' >"$system/check/disk.toml"
grep -q '^device = "/dev/disk/by-id/virtio-DATA"' <(sed 's|ata-MODEL_SERIAL|virtio-DATA|' "$system/check/disk.toml") ||
  fail "docs/SERVE.md has no disk for the configuration"
{ printf 'state = "/var/lib/freeblock"\ncontrol = "/run/freeblock/control.sock"\n'
  sed 's|ata-MODEL_SERIAL|virtio-DATA|; /^profile/d' "$system/check/disk.toml"; } >"$system/etc/freeblock/freeblock.toml"
mkdir -p "$system/etc/systemd/system/freeblock.service.d"
sed -n '/^```ini$/,/^```$/p' "$PROOFS/../docs/SERVE.md" | grep -v '^```' | sed 's|ata\\x2dMODEL_SERIAL|virtio\\x2dDATA|' \
  >"$system/etc/systemd/system/freeblock.service.d/override.conf"
[ "$(grep -c '=dev-disk-by\\x2did-virtio\\x2dDATA.device$' "$system/etc/systemd/system/freeblock.service.d/override.conf")" = 2 ] ||
  fail "docs/SERVE.md has no drop-in that waits for the disk"
mkdir -p "$system/srv/data"
cat >"$system/check/check" <<'CHECK'
#!/bin/bash
say() { echo "GUEST: $*" >/dev/ttyS0; }
die() {
  { echo "$*"; systemctl --no-pager status freeblock.service freeblock-nbd@nbd0.service srv-data.mount; journalctl --no-pager -b | tail -60; } >/dev/ttyS0 2>&1
  say "$*, which failed"
  systemctl --no-block poweroff
  exit 1
}
boot=$(sed 's/.*boot=\([0-9]*\).*/\1/' /proc/cmdline)
if [ "$boot" = 1 ]; then
  systemctl enable freeblock.service freeblock-nbd@nbd0.service || die "enable the units"
  systemctl start freeblock-nbd@nbd0.service || die "start the units"
  mkfs.ext4 -q -F /dev/nbd0 || die mkfs
  cat /check/fstab >>/etc/fstab
  systemctl daemon-reload
  systemctl start srv-data.mount || die "mount by /etc/fstab"
  mkdir /srv/data/early && cp /usr/lib/x86_64-linux-gnu/*.so* /srv/data/early/ || die copy
  sync
  freeblock scrub --priority 7 || die scrub
  freeblock pause 1 || die pause
  cp -r /usr/bin /srv/data/late || die "copy late"
  (cd /srv/data && find . -type f ! -path './lost+found/*' -print0 | xargs -0 sha256sum) >/check/sums
  say "rebooting"
  systemctl --no-block reboot
else
  mountpoint -q /srv/data || die "mount at boot"
  [ "$(findmnt -n -o SOURCE /srv/data)" = /dev/nbd0 ] || die "mount the disk at boot"
  (cd /srv/data && sha256sum --quiet -c /check/sums) || die "compare the files"
  dmesg | grep -E 'nbd0.*(recovery|error)' && die "be unmounted cleanly"
  freeblock tasks | grep '^ *1 .*scrub.*paused' || die "keep the scrub"
  freeblock resume 1 && freeblock cancel 1 || die "resume the scrub"
  journalctl -b -1 -o cat >/check/shutdown || die "read the log of the shutdown"
  grep -E 'nbd0.*error|error.*nbd0' /check/shutdown && die "shut down without an error"
  at() { grep -n "$1" /check/shutdown | tail -1 | cut -d: -f1; }
  unmounted=$(at '^Unmounted srv-data.mount') disconnected=$(at '^Stopped freeblock-nbd@nbd0.service') ended=$(at '^Stopped freeblock.service')
  [ "$unmounted" -lt "$disconnected" ] && [ "$disconnected" -lt "$ended" ] ||
    die "end in order: unmounted at line $unmounted, disconnected at $disconnected, ended at $ended of the log"
  systemctl stop srv-data.mount || die unmount
  e2fsck -fn /dev/nbd0 || die e2fsck
  # Without the mount the daemon's end disconnects the disk first.
  systemctl stop freeblock.service || die stop
  systemctl is-active --quiet freeblock-nbd@nbd0.service && die "disconnect with the daemon"
  say "mounted again, files: $(wc -l </check/sums)"
  systemctl --no-block poweroff
fi
CHECK
debian_image "$system"
for number in 1 2; do
  boot "$number" $disks
  for _ in $(seq 1200); do kill -0 "$guest" 2>/dev/null || break; sleep 1; done
  case $number in 1) says 1 rebooting || not 1 "the guest does not get to its reboot" ;; esac
  kill -0 "$guest" 2>/dev/null && not "$number" "the guest does not end"
  wait "$guest" || true
  guest=
done
says 2 "mounted again" || not 2 "the disk is not as it was before the reboot"
echo "boot: /dev/nbd0 of the daemon is mounted from /etc/fstab, and after a reboot again; $(grep -ao 'files: [0-9]*' "$WORK/console.2") are the same, those included that were not synced; unmounted, disconnected, ended in that order"
