#!/bin/bash
# ext4, XFS and Btrfs on the export, a git clone, tar and SQLite on them; then unmounted, checked, served anew, compared.
. "$(dirname "$0")/lib.sh"
need_root
need nbdfuse nbdfuse
need git git
need sqlite3 sqlite3
systems=${SYSTEMS:-ext4 xfs btrfs}
repository=$(cd "$(dirname "$0")/.." && pwd)
for fs in $systems; do
  case $fs in ext4) need mkfs.ext4 e2fsprogs ;; xfs) need mkfs.xfs xfsprogs ;; btrfs) need mkfs.btrfs btrfs-progs ;; esac
  grep -qw "$fs" /proc/filesystems || modprobe "$fs" 2>/dev/null || { echo "skipped: $fs not found in this kernel"; continue; }
  rm -f "$WORK/disk"
  up 512M
  attach
  case $fs in
    ext4) mkfs.ext4 -q -F "$DEVICE" 400M ;;
    xfs) mkfs.xfs -q -f -d size=400m "$DEVICE" ;;
    btrfs) mkfs.btrfs -q -f -b 400M "$DEVICE" 2>/dev/null ;;
  esac
  mkdir -p "$WORK/mnt"
  mount "$DEVICE" "$WORK/mnt"
  if git -C "$repository" rev-parse --git-dir >/dev/null 2>&1; then
    git -c safe.directory='*' clone -q --no-local --depth 1 "file://$repository" "$WORK/mnt/clone"
    git -c safe.directory='*' -C "$WORK/mnt/clone" fsck --full --strict 2>"$WORK/fsck" || { cat "$WORK/fsck" >&2; exit 1; }
  else
    cp -r "$repository/crates" "$WORK/mnt/clone"
  fi
  tar -C "$WORK/mnt/clone" -cf "$WORK/mnt/all.tar" .
  rows=$(long && echo 20000 || echo 200)
  sqlite3 "$WORK/mnt/base.sqlite" >/dev/null <<SQL
PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;
CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < $rows) INSERT INTO t SELECT i, randomblob(300) FROM n;
DELETE FROM t WHERE id % 3 = 0; UPDATE t SET v = randomblob(200) WHERE id % 5 = 0;
SQL
  (cd "$WORK/mnt" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$WORK/before"
  umount "$WORK/mnt"
  case $fs in
    ext4) e2fsck -fn "$DEVICE" >"$WORK/check" 2>&1 ;;
    xfs) xfs_repair -n "$DEVICE" >"$WORK/check" 2>&1 ;;
    btrfs) btrfs check "$DEVICE" >"$WORK/check" 2>&1 ;;
  esac || { cat "$WORK/check" >&2; echo "$fs is not clean" >&2; exit 1; }
  detach
  down
  # Served anew, all is there.
  up 512M
  attach
  mount "$DEVICE" "$WORK/mnt"
  (cd "$WORK/mnt" && sha256sum --quiet -c "$WORK/before")
  [ "$(sqlite3 "$WORK/mnt/base.sqlite" 'PRAGMA integrity_check')" = ok ]
  tar -C "$WORK/mnt/clone" -df "$WORK/mnt/all.tar"
  umount "$WORK/mnt"
  detach
  down
  echo "$fs: clean, $(wc -l <"$WORK/before") files the same after it was served anew"
done
