#!/bin/bash
# ext4, XFS and Btrfs on the export, a git clone, tar and SQLite on them; then unmounted, checked, served anew, compared.
# With tasks a backup begins after the clone, while the file system stands still, and all that comes then is written beside
# it; what is restored is mounted, compared and checked as well.
. "$(dirname "$0")/lib.sh"
need_root
need nbdfuse nbdfuse
need git git
need sqlite3 sqlite3
systems=${SYSTEMS:-ext4 xfs btrfs}
# XFS is not made smaller. A short proof of ext4 alone is read, kept and restored in seconds.
if [ "$systems" = ext4 ] && ! long; then disk=128M size=100; else disk=512M size=400; fi
repository=$(cd "$PROOFS/.." && pwd)

sums() { (cd "$WORK/mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

# clean FS DEVICE
clean() {
  case $1 in
    ext4) e2fsck -fn "$2" ;;
    xfs) xfs_repair -n "$2" ;;
    btrfs) btrfs check "$2" ;;
  esac >"$WORK/check" 2>&1 || { cat "$WORK/check" >&2; fail "$1 is not clean"; }
}

for fs in $systems; do
  case $fs in ext4) need mkfs.ext4 e2fsprogs ;; xfs) need mkfs.xfs xfsprogs ;; btrfs) need mkfs.btrfs btrfs-progs ;; esac
  grep -qw "$fs" /proc/filesystems || modprobe "$fs" 2>/dev/null || { echo "skipped: $fs not found in this kernel"; continue; }
  rm -rf "$WORK/disk" "$WORK/state"
  up $disk
  begin_scrub
  attach
  case $fs in
    ext4) mkfs.ext4 -q -F "$DEVICE" ${size}M ;;
    xfs) mkfs.xfs -q -f -d size=${size}m "$DEVICE" ;;
    btrfs) mkfs.btrfs -q -f -b ${size}M "$DEVICE" >>"$WORK/log" 2>&1 ;;
  esac
  mkdir -p "$WORK/mnt"
  mount "$DEVICE" "$WORK/mnt"
  if git -C "$repository" rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory='*' clone -q --no-local --depth 1 "file://$repository" "$WORK/mnt/clone"
    git -c safe.directory='*' -C "$WORK/mnt/clone" fsck --full --strict 2>"$WORK/fsck" || { cat "$WORK/fsck" >&2; exit 1; }
  else
    cp -r "$repository/crates" "$WORK/mnt/clone"
  fi
  if tasks; then
    sums >"$WORK/then"
    quiet "$WORK/mnt"
    begin_backup still
    loud "$WORK/mnt"
  fi
  tar -C "$WORK/mnt/clone" -cf "$WORK/mnt/all.tar" .
  rows=$(long && echo 20000 || echo 200)
  sqlite3 "$WORK/mnt/base.sqlite" >/dev/null <<SQL
PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < $rows) INSERT INTO t SELECT i, randomblob(300) FROM n;
DELETE FROM t WHERE id % 3 = 0; UPDATE t SET v = randomblob(200) WHERE id % 5 = 0;
SQL
  if tasks; then
    # What the backup has still to read goes, and others take its place.
    rm -rf "$WORK/mnt/clone/crates"
    sync
    tar -C "$WORK/mnt/clone" -xf "$WORK/mnt/all.tar"
  fi
  sums >"$WORK/before"
  unmount "$WORK/mnt"
  clean $fs "$DEVICE"
  detach
  end_tasks
  if tasks; then
    mount -o loop "$WORK/restored" "$WORK/mnt"
    (cd "$WORK/mnt" && sha256sum --quiet -c "$WORK/then")
    [ "$(find "$WORK/mnt" -type f | wc -l)" = "$(wc -l <"$WORK/then")" ] || fail "the restored $fs holds more than was there"
    unmount "$WORK/mnt"
    clean $fs "$WORK/restored"
    echo "$fs: what was restored is clean, with the $(wc -l <"$WORK/then") files of its instant"
    rm -f "$WORK/restored"
  fi
  # Served anew, all is there.
  up $disk
  attach
  mount "$DEVICE" "$WORK/mnt"
  (cd "$WORK/mnt" && sha256sum --quiet -c "$WORK/before")
  [ "$(sqlite3 "$WORK/mnt/base.sqlite" 'PRAGMA integrity_check')" = ok ]
  tar -C "$WORK/mnt/clone" -df "$WORK/mnt/all.tar"
  unmount "$WORK/mnt"
  detach
  down
  echo "$fs: clean, $(wc -l <"$WORK/before") files the same after it was served anew"
done
