# What the proofs in a guest share: its kernel, and what it boots from. Sourced, after lib.sh.
#
# GUEST is the directory with the guest's parts, which Debian's packages fill when it is empty (`guest_parts`).

need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need cpio cpio
# Whole, since ldd prints the paths of the libraries in it.
GUEST=$(realpath -m "${GUEST:-$WORK/guest}")

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

# guest_part PACKAGE FILE: that package of Debian as well, for this file of it.
guest_part() {
  [ -e "$GUEST/$2" ] && return
  mkdir -p "$GUEST/debs"
  (cd "$GUEST/debs" && timeout 300 apt-get download -qq "$1") >>"$WORK/log" 2>&1 || skip "$1 cannot be downloaded"
  dpkg-deb -x "$GUEST"/debs/"$1"_*.deb "$GUEST"
  rm -r "$GUEST/debs"
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

# root_begin MODULE ...: busybox, the file system's tools, the NBD client and these of the kernel's modules, in $root.
root_begin() {
  root=$WORK/root
  mkdir -p "$root"/{bin,dev,proc,sys,mnt,modules,etc,run}
  cp "$(command -v busybox)" "$root/bin/busybox"
  PATH="$PATH:/usr/sbin:/sbin"
  add "$(command -v mkfs.ext4)"
  add "$(command -v e2fsck)"
  add "$(ls "$GUEST"/sbin/nbd-client "$GUEST"/usr/sbin/nbd-client 2>/dev/null | head -1)"
  local module file
  for module; do
    file=$(find "$GUEST" -name "$module.ko*" | head -1)
    case $file in
      *.xz) xz -dc "$file" >"$root/modules/$module.ko" ;;
      *.ko) cp "$file" "$root/modules/" ;;
      '') ;; # built in
    esac
  done
  echo "$*" >"$root/modules/order"
}

# root_end: what the guest does stands on standard input; before that it has its file systems, its modules and the words of
# its command line as variables. It says `die WHAT` if that failed.
root_end() {
  cat >"$root/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for word in $(cat /proc/cmdline); do case $word in boot=*) boot=${word#boot=} ;; port=*) port=${word#port=} ;; esac; done
die() { echo "GUEST: $*, which failed"; poweroff -f; }
for module in $(cat /modules/order); do
  [ ! -e /modules/$module.ko ] || insmod /modules/$module.ko || die insmod $module
done
INIT
  cat - >>"$root/init"
  chmod +x "$root/init"
  (cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >"$WORK/initramfs"
}

# boot N ARGUMENT ...: begins it with N as `boot`, with a kernel that does not mistake a busy host for a broken timer;
# `guest` is its process, and it writes to $WORK/console.N. The arguments are the emulator's.
boot() {
  local number=$1
  shift
  qemu-system-x86_64 -machine accel=tcg -cpu max -smp 1 -nographic -no-reboot -kernel "$GUEST"/boot/vmlinuz-* \
    -initrd "$WORK/initramfs" -append "console=ttyS0 quiet panic=-1 no_timer_check boot=$number port=${port:-0}" \
    "$@" </dev/null >"$WORK/console.$number" 2>&1 &
  guest=$!
}

# says N WORD: whether the guest has said that.
says() { grep -q "GUEST: $2" "$WORK/console.$1"; }

# not N WHAT: the end, with what the guest said last.
not() { tail -40 "$WORK/console.$1" >&2; fail "$2"; }

at_end() { [ -z "${guest:-}" ] || kill -9 "$guest" 2>/dev/null; }
