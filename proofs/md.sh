#!/bin/bash
# Comparisons of disks held against arrays that mdadm has made: in a guest whose kernel has md, members of RAID 1, RAID 5 and RAID 6
# are synchronised by the kernel and filled with random bytes, with a data offset and a chunk. `freeblock verify` finds that they
# agree; a wrong chunk is found; and after one sector of one member is changed it names that LBN.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the daemon runs in the guest, over files there: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
need mkfs.ext4 e2fsprogs

guest_parts
guest_part mdadm sbin/mdadm
root_begin loop crc32c_generic libcrc32c xor raid6_pq async_tx async_memcpy async_xor async_pq async_raid6_recov md-mod raid1 raid456
mkdir -p "$root/data"
add "$GUEST/sbin/mdadm"
cp "$FREEBLOCK" "$WORK/freeblock"
strip --strip-debug "$WORK/freeblock" 2>/dev/null || true
add "$WORK/freeblock"
root_end <<'INIT'
mount -t tmpfs -o size=200m tmpfs /data
ip link set lo up
# make LEVEL MEMBERS MORE ...: makes /data/LEVEL.N, and their array with mdadm, synchronised and full of random bytes.
make() {
  level=$1
  members=$2
  shift 2
  devices=
  for n in $(seq 0 $((members - 1))); do
    truncate -s 12M /data/$level.$n
    loop=$(losetup -f)
    losetup $loop /data/$level.$n || die losetup
    devices="$devices $loop"
  done
  mdadm --create /dev/md0 --run --metadata=1.2 --level=$level --raid-devices=$members "$@" $devices || die "make an array of level $level"
  for i in $(seq 300); do grep -q -e resync -e recover /proc/mdstat || break; sleep 1; done
  mdadm --detail /dev/md0 | grep -q "State : clean *$" || { mdadm --detail /dev/md0; die "synchronise"; }
  dd if=/dev/urandom of=/dev/md0 bs=64k 2>/dev/null
  sync
  mdadm --detail /dev/md0 | grep -e Layout -e "Chunk Size"
  # md counts the sectors that do not agree; there must be none.
  echo check >/sys/block/md0/md/sync_action
  for i in $(seq 300); do [ "$(cat /sys/block/md0/md/sync_action)" = idle ] && break; sleep 1; done
  [ "$(cat /sys/block/md0/md/mismatch_cnt)" = 0 ] || die "check by md"
  mdadm --stop /dev/md0 || die "stop the array"
  first=${devices# }
  first=${first%% *}
  offset=$(mdadm --examine $first | sed -n 's/^ *Data Offset : \([0-9]*\) sectors.*/\1/p')
  used=$(mdadm --examine $first | sed -n -e 's/^ *Used Dev Size : \([0-9]*\) .*/\1/p' -e 's/^ *Avail Dev Size : \([0-9]*\) .*/\1/p' | sort -n | head -1)
  [ "$offset" -gt 0 ] || die "be told of the data offset"
  for loop in $devices; do losetup -d $loop; done
  disks= names=
  for n in $(seq 0 $((members - 1))); do
    disks="$disks
[[disk]]
name = \"m$n\"
device = \"/data/$level.$n\"
listen = [\"unix:/data/s$n\"]"
    names="$names m$n"
  done
  echo "state = \"/data/state.$level\"
control = \"/data/control\"
$disks" >/data/config
}
# verify NAME MORE ...: compares the members, and shows the result.
verify() {
  freeblock serve --config /data/config >>/data/log 2>&1 &
  daemon=$!
  for i in $(seq 600); do [ ! -S /data/control ] || break; kill -0 $daemon 2>/dev/null || break; sleep 0.1; done
  [ -S /data/control ] || { cat /data/log; die "start the daemon"; }
  freeblock verify $names --offset $offset --sectors $used --memory 64MiB --wait --control /data/control "$@" >/data/told 2>&1
  cat /data/told
  grep -q "is done" /data/told || die "compare"
  kill -TERM $daemon
  wait $daemon || die "end the daemon"
}
agree() { verify "$@"; grep -q "DO NOT AGREE" /data/told && die "agree with md"; }
# change N: one sector of a member.
change() {
  lbn=$((offset + used / 3))
  dd if=/dev/urandom of=/data/$level.$1 bs=512 seek=$lbn count=1 conv=notrunc 2>/dev/null
}
names_it() { verify "$@"; grep -q "members do not agree at LBNs: $lbn;" /data/told || die "name LBN $lbn"; echo "GUEST: level $level, offset $offset: agrees, and names LBN $lbn"; }

make 1 2
agree
change 1
names_it
make 5 4 --chunk=64 --layout=left-symmetric
agree --array raid5
change 2
names_it --array raid5
make 6 5 --chunk=64 --layout=left-symmetric --data-offset=3M
agree --array raid6 --chunk 64k
verify --array raid6 --chunk 32k
grep -q "DO NOT AGREE" /data/told || die "find a wrong chunk"
change 3
names_it --array raid6 --chunk 64k
echo "GUEST: well"
poweroff -f
INIT
boot 1 -m 512 -nic none
for _ in $(seq 1200); do kill -0 "$guest" 2>/dev/null || break; sleep 1; done
says 1 well || not 1 "a comparison and md differ"
wait "$guest" || true
guest=
grep -ao 'GUEST: level.*' "$WORK/console.1" | sed 's/^GUEST: /md: /'
