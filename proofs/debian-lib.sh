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

# package DIRECTORY [VERSION]: the package of $FREEBLOCK; its path is on standard output.
package() {
  mkdir -p "$1"
  VERSION=${2:-} bash "$PROOFS/../packaging/deb.sh" "$FREEBLOCK" "$1"
}
