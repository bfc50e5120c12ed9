#!/bin/bash
# fio's own NBD client writes at random, reads back and verifies every block; twice, so that the backup that is begun
# between is of blocks that are then overwritten.
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
if long; then size=256m disk=512M; else size=16m disk=48M; fi
[ "$KIND" != live ] || size=64m # in real time
[ "$KIND" = emulate ] && size=4m
up $disk
cd "$WORK" # where fio leaves its state
verify() {
  fio --name=verify --ioengine=nbd --uri="$URI" --rw=randrw --rwmixread=30 --bsrange=4k-64k --iodepth=16 --size=$size \
    --verify=crc32c --verify_fatal=1 --do_verify=1 --fsync=64 --randseed="$1" --output-format=json --output="$WORK/fio.json"
  # When its connection fails fio says error 0 and nothing done.
  python3 - "$WORK/fio.json" <<'PY'
import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
read, write = job["read"]["total_ios"], job["write"]["total_ios"]
assert job["error"] == 0 and read > 0 and write > 0, (job["error"], read, write)
print(f"fio: {write} writes, {read} reads, all verified")
PY
}
begin_scrub
verify 7
begin_backup still
verify 11
end_tasks
