#!/bin/bash
# deb.sh BINARY DIRECTORY: the Debian package of a `freeblock` that was built, as DIRECTORY/freeblock_VERSION_ARCHITECTURE.deb.
#
# VERSION, SOURCE_DATE_EPOCH and MAINTAINER replace the version in Cargo.toml, and the time and the author of the last commit;
# COMPRESSION is that of dpkg-deb. The same binary gives the same package. The script needs dpkg-deb, dpkg-shlibdeps and strip, of
# Debian's dpkg-dev and binutils (docs/decisions/0027-a-package-by-dpkg-deb.md).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$here/..
binary=$(realpath "$1")
directory=$(realpath "$2")
version=${VERSION:-$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -1)-1}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || date +%s)}
maintainer=${MAINTAINER:-$(git -C "$top" log -1 --format='%an <%ae>' 2>/dev/null || true)}
: "${maintainer:=freeblock <root@$(hostname -f 2>/dev/null || echo localhost)>}"
architecture=$(dpkg --print-architecture)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
umask 022
put() { install -D -m "$1" "$2" "$root/$3"; }

put 755 "$binary" usr/bin/freeblock
strip --remove-section=.comment --remove-section=.note "$root/usr/bin/freeblock"
for unit in "$here"/*.service "$here"/*.socket; do put 644 "$unit" "lib/systemd/system/${unit##*/}"; done
put 644 "$here/freeblock.sysusers.conf" usr/lib/sysusers.d/freeblock.conf
put 644 "$here/freeblock.tmpfiles.conf" usr/lib/tmpfiles.d/freeblock.conf
put 644 "$top/docs/freeblock.toml" etc/freeblock/freeblock.toml
put 644 "$here/grafana/freeblock.json" usr/share/freeblock/grafana/freeblock.json
put 644 "$here/prometheus/freeblock.rules.yml" usr/share/freeblock/prometheus/freeblock.rules.yml
for drop_in in ublk local; do put 644 "$here/freeblock-$drop_in.conf" "usr/share/freeblock/freeblock-$drop_in.conf"; done

mkdir -p "$root/usr/share/man/man1" "$work/completions"
"$binary" man "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*
for shell in bash zsh fish; do "$binary" completions "$shell" >"$work/completions/$shell"; done
put 644 "$work/completions/bash" usr/share/bash-completion/completions/freeblock
put 644 "$work/completions/zsh" usr/share/zsh/vendor-completions/_freeblock
put 644 "$work/completions/fish" usr/share/fish/vendor_completions.d/freeblock.fish

documents=usr/share/doc/freeblock
for document in README.md docs/SERVE.md docs/CONTROL.md docs/SAFETY.md docs/PROBE.md docs/SCRUB.md docs/BACKUP.md; do
  put 644 "$top/$document" "$documents/${document##*/}"
done
mkdir -p "$work/debian" "$root/DEBIAN"
# The licence's text, in the form that the file of copyrights wants: indented, and a dot in each empty line.
sed 's/^$/./; s/^/ /' "$top/LICENSE-MIT" >"$work/debian/mit"
sed -e "/^@MIT@$/{r $work/debian/mit
d}" "$here/debian/copyright" >"$work/debian/copyright"
put 644 "$work/debian/copyright" "$documents/copyright"
gzip -9nc "$top/CHANGELOG.md" >"$root/$documents/changelog.gz"
gzip -9nc >"$root/$documents/changelog.Debian.gz" <<EOF
freeblock ($version) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- $maintainer  $(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")
EOF

# The libraries that the binary is linked with, with the versions that have the symbols it uses.
printf 'Source: freeblock\n\nPackage: freeblock\nArchitecture: any\n' >"$work/debian/control"
libraries=$(cd "$work" && dpkg-shlibdeps -O --ignore-missing-info "$root/usr/bin/freeblock" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
size=$(du -k -s --apparent-size "$root" | cut -f1)
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" -e "s/@MAINTAINER@/$maintainer/" -e "s/@SIZE@/$size/" \
  -e "s/@LIBRARIES@/${libraries:+$libraries, }/" "$here/debian/control" >"$root/DEBIAN/control"
for script in postinst prerm postrm; do install -m 755 "$here/debian/$script" "$root/DEBIAN/$script"; done
echo /etc/freeblock/freeblock.toml >"$root/DEBIAN/conffiles"
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\n' | grep -v '^etc/' | LC_ALL=C sort | xargs md5sum) >"$root/DEBIAN/md5sums"

package=$directory/freeblock_${version}_$architecture.deb
dpkg-deb --build --root-owner-group -Z"${COMPRESSION:-xz}" "$root" "$package" >/dev/null
echo "$package"
