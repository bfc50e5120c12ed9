#!/bin/bash
# The cost of the page's browsers to the disk's clients: the same fio job in turns without a browser, beside a hundred that follow the
# page, and beside one that takes nothing of it. KIND=serve is over a file in memory, where the daemon's own time shows; KIND=live is
# over a drive in real time, DRIVE, with a scrub at work.
DRIVE=${DRIVE:-quantum-atlas-10k,noise}
KIND=${KIND:-live}
TASKS=no
. "$(dirname "$0")/lib.sh"
need fio fio
need python3 python3
[ -d /dev/shm ] || skip "/dev/shm not found"
[ "$KIND" = live ] || [ "$KIND" = serve ] || skip "the page is the daemon's: KIND=serve or KIND=live"
seconds=$(long && echo 30 || echo 1)
rounds=$(long && echo 5 || echo 1)
# A short run shows that a browser follows; its figures need not be those of a daemon at its limit.
pace=$(long || echo --rate_iops=500)
browsers=
memory=$(mktemp -d /dev/shm/freeblock-page.XXXXXX)
at_end() { [ -z "$browsers" ] || kill "$browsers" 2>/dev/null; rm -rf "$memory"; }

# A browser follows /events, and tries again two seconds after it was refused, as the page does. A lazy one takes no byte.
cat >"$WORK/browsers.py" <<'PY'
import selectors, socket, sys, time
port, count, lazy = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "lazy"
ready, due, following, taken, refused = selectors.DefaultSelector(), [0.0] * count, set(), 0, 0
def open_one(number):
    browser = socket.socket()
    if lazy:
        browser.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    browser.connect(("127.0.0.1", port))
    browser.sendall(f"GET /events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n".encode())
    browser.setblocking(False)
    due[number] = None
    if not lazy:
        ready.register(browser, selectors.EVENT_READ, number)
    return browser
held, report = {}, time.monotonic() + 1
while True:
    now = time.monotonic()
    for number in range(count):
        if due[number] is not None and due[number] <= now:
            held[number] = open_one(number)
    for key, _ in ready.select(0.2):
        data = key.fileobj.recv(1 << 16)
        taken += len(data)
        if b" 200 OK" in data[:20]:
            following.add(key.data)
        if not data or b" 503 " in data[:20]:
            refused += 1
            following.discard(key.data)
            ready.unregister(key.fileobj)
            key.fileobj.close()
            due[key.data] = time.monotonic() + 2
    if lazy:
        time.sleep(0.2)
    if now >= report:
        report = now + 1
        with open(sys.argv[4], "w") as out:
            out.write(f"{len(following)} {taken} {refused}\n")
PY
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

cd "$WORK"
for round in $(seq "$rounds"); do
  for beside in none hundred lazy; do
    rm -rf "$WORK/disk" "$WORK/state"
    rm -f "$memory/disk"
    port=$(free_port)
    WEB=127.0.0.1:$port
    if [ "$KIND" = serve ]; then truncate -s 1G "$memory/disk"; ln -s "$memory/disk" "$WORK/disk"; fi
    up 1G
    [ "$KIND" != live ] || ask scrub >>"$WORK/log"
    case $beside in
      hundred) python3 "$WORK/browsers.py" "$port" 100 busy "$WORK/seen.$round" & browsers=$! ;;
      lazy) python3 "$WORK/browsers.py" "$port" 1 lazy "$WORK/seen" & browsers=$! ;;
    esac
    before=$(awk '{print $14 + $15}' "/proc/$server/stat")
    fio --name=page --ioengine=nbd --uri="$URI" --rw=randrw --rwmixread=67 --bs=4k --iodepth=4 --size=1G --time_based \
      --runtime="$seconds" --ramp_time=2 $pace --randseed="$round" --output-format=json --output="$WORK/fio.$beside.$round"
    echo $(($(awk '{print $14 + $15}' "/proc/$server/stat") - before)) >"$WORK/cpu.$beside.$round"
    if [ -n "$browsers" ]; then kill "$browsers"; wait "$browsers" 2>/dev/null || true; browsers=; fi
    down
  done
done
python3 - "$WORK" "$rounds" "$KIND" "$DRIVE" <<'PY'
import json, statistics, sys
work, rounds, kind, drive = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
over = "a file in memory" if kind == "serve" else f"{drive} in real time, beside a scrub"
print(f"4 KiB, two thirds reads, 4 outstanding, over {over}; medians of {rounds} rounds")
print(f"{'browsers':<22} {'IOPS':>8} {'mean ms':>8} {'p99 ms':>8} {'daemon CPU':>11}")
alone = None
for beside, name in (("none", "none"), ("hundred", "100 that follow"), ("lazy", "1 that takes nothing")):
    rows = []
    for round in range(1, rounds + 1):
        job = json.load(open(f"{work}/fio.{beside}.{round}"))["jobs"][0]
        reads, writes = job["read"], job["write"]
        done = reads["total_ios"] + writes["total_ios"]
        assert job["error"] == 0 and done > 0, (beside, job["error"], done)
        mean = (reads["clat_ns"]["mean"] * reads["total_ios"] + writes["clat_ns"]["mean"] * writes["total_ios"]) / done / 1e6
        slow = max(way["clat_ns"]["percentile"]["99.000000"] for way in (reads, writes)) / 1e6
        cpu = int(open(f"{work}/cpu.{beside}.{round}").read()) / (job["job_runtime"] / 1e3 + 2)
        rows.append((reads["iops"] + writes["iops"], mean, slow, cpu))
    row = [statistics.median(column) for column in zip(*rows)]
    alone = alone or row
    print(f"{name:<22} {row[0]:>8.0f} {row[1]:>8.3f} {row[2]:>8.3f} {row[3]:>10.1f}%")
    if beside != "none":
        ratios = [[one / other for one, other in zip(a, b)] for a, b in zip(rows, first)]
        spread = [(min(column), statistics.median(column), max(column)) for column in zip(*ratios)]
        text = ", ".join(f"{middle:.3f} ({low:.3f} to {high:.3f}) of {word}" for (low, middle, high), word in zip(spread, ("its IOPS", "its mean", "its p99")))
        print(f"{'':<22} round by round {text}")
    else:
        first = rows
for round in range(1, rounds + 1):
    followed, taken, refused = map(int, open(f"{work}/seen.{round}").read().split())
    assert followed > 0 and taken > 0, "no browser follows"
    if round == 1:
        print(f"of the hundred {followed} follow, {taken / 1e6:.1f} MB in a round; the others are refused and try again every two seconds: {refused} times")
PY
