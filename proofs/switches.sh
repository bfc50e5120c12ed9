#!/bin/bash
# A disk's look-ahead and read cache, switched at a SCSI disk of a guest's own kernel (its module scsi_debug): they are off while the
# process runs, on again after its end, and after kill -9 by the next start. SWITCHES is the path of the example of crates/device.
. "$(dirname "$0")/lib.sh"
[ "$KIND" = serve ] || skip "the disk is the guest's: KIND=serve"
. "$(dirname "$0")/guest-lib.sh"
need mkfs.ext4 e2fsprogs
[ -x "${SWITCHES:-}" ] || skip "the example switches not found; cargo build --example switches builds it"

guest_parts
root_begin scsi_common scsi_mod crc64 crc64-rocksoft_generic crc64-rocksoft crct10dif_common crct10dif_generic crc-t10dif t10-pi sd_mod scsi_debug
cp "$SWITCHES" "$WORK/switches"
strip --strip-debug "$WORK/switches" 2>/dev/null || true
add "$WORK/switches"
root_end <<'INIT'
disk=/dev/sda
for try in 1 2 3 4 5 6 7 8 9 10; do [ ! -b $disk ] || break; sleep 1; done
[ -b $disk ] || die "find the disk of scsi_debug"
both() { [ "$(switches $disk)" = "Switches { look_ahead: Some($1), read_cache: Some($1) }" ] || die "be $1 $2: $(switches $disk)"; }
both true "at the beginning"
begin() {
  mkfifo /run/hold
  switches $disk /run/records off </run/hold >/run/said &
  process=$!
  exec 9>/run/hold
  for try in $(seq 100); do [ "$(cat /run/said)" != off ] || return 0; sleep 0.1; done
  die "switch off"
}
end() { exec 9>&-; rm /run/hold; }
begin
both false "while the process runs"
[ "$(ls /run/records | wc -l)" = 1 ] || die "keep a record"
end
wait $process || die "put back at its end"
both true "after its end"
[ "$(ls /run/records | wc -l)" = 0 ] || die "remove its record"
begin
both false "before the kill"
kill -9 $process
wait $process 2>/dev/null
end
both false "after the kill"
[ "$(switches $disk /run/records back)" = back ] || die "find the record"
both true "after the next start"
[ "$(ls /run/records | wc -l)" = 0 ] || die "remove the record of the killed process"
echo "GUEST: switched"
poweroff -f
INIT
boot 1 -m 256 -nic none
for _ in $(seq 600); do kill -0 "$guest" 2>/dev/null || break; sleep 0.5; done
kill -0 "$guest" 2>/dev/null && not 1 "the guest does not end"
wait "$guest" || true
guest=
says 1 switched || not 1 "the switches are not as they have to be"
echo "switches: look-ahead and read cache of the guest's SCSI disk are off while a process runs, on after its end, and on after kill -9 and the next start"
