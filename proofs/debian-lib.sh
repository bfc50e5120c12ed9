# What the proofs with a whole Debian share: its root file system, and the package of a binary. Sourced, after lib.sh.
#
# DEBIAN is the directory in which the root file system is kept between runs.

need debootstrap debootstrap
need dpkg-deb dpkg
need dpkg-shlibdeps dpkg-dev
need strip binutils
[ "$(id -u)" = 0 ] || skip "debootstrap needs root"
DEBIAN=${DEBIAN:-$WORK/debian}
# Beyond what is required: the service manager as the first process, device nodes, and clients.
INCLUDE=systemd,systemd-sysv,udev,kmod,nbd-client,libnbd-bin

# debian_root DIRECTORY: a clean Debian of this machine's release, from its mirror at the first time.
debian_root() {
  local release mirror
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  local kept=$DEBIAN/$release.tar
  if ! [ -e "$kept" ]; then
    mirror=$(apt-cache policy 2>/dev/null | sed -n 's/^ *[0-9]* \(http[^ ]*\) .*main.*/\1/p' | grep -v security | head -1)
    mkdir -p "$DEBIAN"
    rm -rf "$DEBIAN/making"
    timeout 900 debootstrap --variant=minbase --include="$INCLUDE" "$release" "$DEBIAN/making" ${mirror:+"$mirror"} >>"$WORK/log" 2>&1 ||
      skip "Debian's $release not found at ${mirror:-its mirror}"
    rm -rf "$DEBIAN"/making/var/cache/apt/archives/*.deb "$DEBIAN"/making/var/lib/apt/lists/*
    tar -C "$DEBIAN/making" --numeric-owner --xattrs -cf "$kept.part" .
    mv "$kept.part" "$kept"
    rm -rf "$DEBIAN/making"
  fi
  mkdir -p "$1"
  tar -C "$1" --numeric-owner --xattrs -xpf "$kept"
}

# debian_guest DIRECTORY: such a Debian with the modules of the guest's kernel and the package of $FREEBLOCK installed, which runs
# /check/check, to be written, at boot. It comes after guest_parts.
debian_guest() {
  local system=$1 kernel modules
  debian_root "$system"
  kernel=$(basename "$(echo "$GUEST"/boot/vmlinuz-*)")
  kernel=${kernel#vmlinuz-}
  modules=$(find "$GUEST" -type d -path "*/lib/modules/$kernel" | head -1)
  mkdir -p "$system/lib/modules/$kernel/kernel/drivers"
  cp "$modules"/modules.builtin* "$modules/modules.order" "$system/lib/modules/$kernel/"
  cp -r "$modules/kernel/drivers/block" "$system/lib/modules/$kernel/kernel/drivers/"
  chroot "$system" depmod "$kernel" >>"$WORK/log" 2>&1
  mkdir "$system/check"
  strip --strip-debug -o "$WORK/freeblock" "$FREEBLOCK"
  FREEBLOCK=$WORK/freeblock COMPRESSION=none package "$system/check" >>"$WORK/log"
  unshare --mount sh -c 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -c "dpkg -i /check/*.deb"' sh "$system" >>"$WORK/log" 2>&1 || fail "the package is not installed"
  mkdir -p "$system/etc/systemd/system/default.target.wants" "$system/var/log/journal" "$system/etc/systemd/system.conf.d"
  echo guest >"$system/etc/hostname"
  # The emulator is slow, and no other user of the machine knows that.
  printf '[Manager]\nDefaultTimeoutStartSec=900s\nDefaultTimeoutStopSec=600s\nDefaultDeviceTimeoutSec=900s\n' >"$system/etc/systemd/system.conf.d/slow.conf"
  printf '[Unit]\nAfter=multi-user.target remote-fs.target srv-data.mount\n[Service]\nType=oneshot\nTimeoutStartSec=infinity\nExecStart=/check/check\n[Install]\nWantedBy=default.target\n' \
    >"$system/etc/systemd/system/check.service"
  ln -s /etc/systemd/system/check.service "$system/etc/systemd/system/default.target.wants/"
}

# debian_image DIRECTORY: it as $WORK/system.img and what boots it, beside a second disk of 512 MB with the serial number DATA; `disks`
# are the emulator's arguments. The directory is gone then.
debian_image() {
  chmod +x "$1/check/check"
  mkfs.ext4 -q -F -d "$1" "$WORK/system.img" 1500M >>"$WORK/log" 2>&1
  rm -rf "$1"
  truncate -s 512M "$WORK/data.img"
  root_begin crc32c_generic crc16 mbcache jbd2 ext4 virtio_blk
  mkdir "$root/system"
  root_end <<'INIT'
for try in 1 2 3 4 5 6 7 8 9 10; do [ -b /dev/vda ] && break; sleep 1; done
mount -t ext4 /dev/vda /system || die "mount the system"
umount /proc /sys /dev
exec switch_root /system /sbin/init
INIT
  disks="-m 1024 -nic none -drive file=$WORK/system.img,format=raw,if=none,id=system -device virtio-blk-pci,drive=system
    -drive file=$WORK/data.img,format=raw,if=none,id=data -device virtio-blk-pci,drive=data,serial=DATA"
}

# package DIRECTORY [VERSION]: the package of $FREEBLOCK; its path is on standard output.
package() {
  mkdir -p "$1"
  VERSION=${2:-} bash "$PROOFS/../packaging/deb.sh" "$FREEBLOCK" "$1"
}
