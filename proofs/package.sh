#!/bin/bash
# The Debian package in a clean Debian whose first process is systemd: installed; its daemon serves an emulated disk and has a
# paused scrub; upgraded, and the scrub and the clients' bytes are there; removed, and they still are; purged, and no file is left.
. "$(dirname "$0")/lib.sh"
need systemd-nspawn systemd-container
. "$(dirname "$0")/debian-lib.sh"

root=$WORK/root
debian_root "$root"
mkdir "$root/check"
old=$(package "$root/check" 0.0.1-1)
new=$(package "$root/check")
if command -v lintian >/dev/null; then
  lintian --fail-on error --suppress-tags bogus-mail-host,bogus-mail-host-in-debian-changelog "$new" >"$WORK/lintian" 2>&1 ||
    { cat "$WORK/lintian" >&2; fail "lintian finds errors"; }
  echo "package: lintian finds no error"
else
  echo "skipped: lintian not found; on Debian it is in lintian"
fi
mv "$old" "$root/check/old.deb"
mv "$new" "$root/check/new.deb"

cat >"$root/check/check" <<'CHECK'
#!/bin/bash
exec >/check/log 2>&1
trap 'sync; systemctl --no-block poweroff >/dev/null 2>&1' EXIT
die() { echo "$*"; systemctl --no-pager status freeblock.service; journalctl --no-pager -u freeblock | tail -20; exit 1; }
# Every file and directory but those that a package manager and a running system write, and every user and group.
state() {
  find / -xdev \( -path /check -o -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /var/tmp -o -path /var/log \
    -o -path /var/lib/dpkg -o -path /var/lib/systemd -o -path /var/cache -o -path /root \) -prune -o -print | LC_ALL=C sort
  find /run -path '*freeblock*' ! -path '/run/systemd/*'
  cut -d: -f1 /etc/passwd /etc/group | LC_ALL=C sort
}
tasks() { freeblock tasks --json >/check/tasks || die "the daemon does not answer"; }
disk="nbd+unix:///?socket=/run/freeblock/d0.sock"

# The first boot has made what it makes before this.
state >/check/before
dpkg -i /check/old.deb || die "the package is not installed"
[ "$(systemctl is-enabled freeblock.service)" = disabled ] || die "the installation has enabled the service"
systemctl is-active --quiet freeblock.service && die "the installation has started the service"
getent passwd freeblock || die "there is no user freeblock"
[ "$(stat -c %U:%a /var/lib/freeblock)" = freeblock:700 ] || die "the state directory has other rights"
man_pages=$(ls /usr/share/man/man1/freeblock*.1.gz | wc -l)
[ "$man_pages" -gt 20 ] || die "there are $man_pages man pages"

# The example serves an emulated disk. This line stands for an operator's own configuration.
echo '# of this machine' >>/etc/freeblock/freeblock.toml
systemctl enable --now freeblock.socket freeblock-control.socket freeblock.service || die "the service does not start"
head -c 4M /dev/urandom >/check/data
nbdcopy /check/data "$disk" || die "the disk cannot be written"
freeblock scrub --sectors 2048 --wait || die "the first scrub fails"
freeblock scrub || die "the second scrub is refused"
freeblock pause 2 || die "the second scrub cannot be paused"
before=$(systemctl show -P MainPID freeblock.service)
echo "installed: the daemon serves an emulated disk"

dpkg -i /check/new.deb || die "the package is not upgraded"
systemctl is-active --quiet freeblock.service || die "the service does not run after the upgrade"
[ "$(systemctl show -P MainPID freeblock.service)" != "$before" ] || die "the upgrade leaves the daemon of before"
dpkg-query -W -f '${Version}\n' freeblock | grep -v '^0\.0\.1' || die "the version is the former one"
tail -1 /etc/freeblock/freeblock.toml | grep '^# of this machine' || die "the upgrade has changed the configuration"
freeblock tasks >/check/tasks || die "the daemon does not answer after the upgrade"
cat /check/tasks
grep '^ *2 .*scrub.*paused' /check/tasks || die "the paused scrub is gone"
freeblock resume 2 && freeblock cancel 2 || die "the scrub does not go on after the upgrade"
nbdcopy "$disk" - | head -c 4M | cmp - /check/data || die "the bytes on the disk have changed"
echo "upgraded: the paused scrub and the clients' bytes are there"

dpkg -r freeblock || die "the package is not removed"
systemctl is-active --quiet freeblock.service && die "the daemon runs after its removal"
[ -s /var/lib/freeblock/d0.img ] && [ -e /etc/freeblock/freeblock.toml ] || die "a removal has deleted the state or the configuration"
dpkg -i /check/new.deb || die "the package is not installed again"
freeblock tasks >/check/tasks 2>&1 && die "an installation has started the service"
systemctl start freeblock.service || die "the service does not start again"
freeblock tasks | grep '^ *2 .*scrub.*cancelled' || die "the tasks are gone after a removal"
touch /var/backups/freeblock/image
dpkg -P freeblock || die "the package is not purged"
[ -e /var/backups/freeblock/image ] && getent passwd freeblock || die "a purge deletes backups"
rm /var/backups/freeblock/image
dpkg -i /check/new.deb && dpkg -P freeblock || die "the package is not purged again"
state >/check/after
diff /check/before /check/after || die "a purge leaves something"
echo "purged: nothing is left"
echo well
CHECK
chmod +x "$root/check/check"
cat >"$root/etc/systemd/system/check.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/check/check
[Install]
WantedBy=default.target
UNIT
mkdir -p "$root/etc/systemd/system/default.target.wants"
ln -s /etc/systemd/system/check.service "$root/etc/systemd/system/default.target.wants/"
rm -f "$root/etc/machine-id"
timeout 600 systemd-nspawn --quiet --directory "$root" --register=no --keep-unit --private-network --console=pipe \
  --system-call-filter="io_uring_setup io_uring_enter io_uring_register" --boot </dev/null >"$WORK/console" 2>&1 || true
[ -e "$root/check/log" ] || { tail -5 "$WORK/console" >&2; skip "systemd-nspawn cannot boot a container here"; }
grep -qx well "$root/check/log" || { cat "$root/check/log" >&2; fail "the package does not do what it has to"; }
grep -E '^(installed|upgraded|purged):' "$root/check/log" | sed 's/^/package: /'
