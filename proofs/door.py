"""The clients of proofs/door.sh, and its table.

`door.py load SECONDS RATE FIRST NAME:SOCKET:WRITES ...` sends random requests of 4 KiB to each disk, WRITES percent of them writes
behind the first FIRST bytes. Arrivals are open, with exponential distances, and drawn from NAME up to its first dot, so that
`dd-2` and `dd-2.alone` have the same requests at the same times. NAME.times gets the arrival (ns of the system's clock) and the
response time (ns) of each request, counted from the time at which it was to be sent. SIGTERM ends the load.

`door.py table held|shown NAME ...` prints what the programs NAME have read, and what the clients beside them have waited; copies of a
program, as `dd` and `dd-2`, are one row. With `held`
it ends with 1 if the upper end of the interval of a program at the background export is over the bound of 1%.

`door.py reads LOG` prints the reads of a log of nbdkit in their order: offset and length in bytes, and how many were under way
when each was sent; `door.py answers LOG` those that were answered, in the order of the answers. `door.py runs LOG` prints them shorter, in sectors of 512 bytes: how many such reads follow each other, the distance
of each from the end of the one before, its length, and how many were under way. crates/server/tests/data has such files.
"""
import array, glob, itertools, math, multiprocessing, os, random, re, select, signal, statistics, sys, time

BYTES = 4096
BOUND = 0.01
# Delays by detours and their saving even out over minutes, so that shorter blocks would not be independent.
BLOCKS, BLOCK_S = 8, 300


def load(seconds, rate, first, disk, start):
    import nbd
    name, socket, writes = disk
    chance = random.Random(name.split(".")[0])
    handle = nbd.NBD()
    handle.connect_uri(f"nbd+unix:///?socket={socket}")
    blocks = handle.get_size() // BYTES
    # What is read is not looked at, so all reads share one buffer.
    buffer, zeroes = nbd.Buffer(BYTES), nbd.Buffer.from_bytearray(bytearray(BYTES))
    times = open(f"{name}.times", "wb")
    running = True

    def stop(*_):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    offset = time.time_ns() - time.monotonic_ns()
    at = start

    def answered(at):
        def done(error):
            if error.value:
                print(f"{name}: a request failed: {error.value}", file=sys.stderr)
                os._exit(1)
            array.array("q", [at, time.monotonic_ns() + offset - at]).tofile(times)
            return 1

        return done

    while running and at < start + seconds * 10**9:
        wait = at - offset - time.monotonic_ns()
        if wait <= 0:
            block = chance.randrange(blocks)
            if chance.random() * 100 < writes:
                block = max(block, first // BYTES)
                handle.aio_pwrite(zeroes, block * BYTES, answered(at))
            else:
                handle.aio_pread(buffer, block * BYTES, answered(at))
            at += int(chance.expovariate(rate) * 1e9)
            continue
        direction = handle.aio_get_direction()
        wanted = [[handle.aio_get_fd()] if direction & one else [] for one in (nbd.AIO_DIRECTION_READ, nbd.AIO_DIRECTION_WRITE)]
        # Not poll, which waits for whole milliseconds.
        readable, writable, _ = select.select(*wanted, [], wait / 1e9)
        if readable:
            handle.aio_notify_read()
        elif writable:
            handle.aio_notify_write()
    times.close()


def reads(log):
    "The reads of a log of nbdkit: offset, length, how many were under way when it was sent; and offset and length of those answered."
    found, waiting, done = [], {}, []
    for line in open(log):
        if begun := re.search(r"connection=(\d+) Read id=(\d+) offset=(\w+) count=(\w+)", line):
            connection, number, offset, count = begun.groups()
            place = int(offset, 0), int(count, 0)
            found.append((*place, len(waiting)))
            waiting[connection, number] = place
        elif ended := re.search(r"connection=(\d+) \.\.\.Read id=(\d+) return=0", line):
            done.append(waiting.pop(ended.groups()))
    return found, done


def quantile(freedom):
    "The one-sided 95% quantile of Student's distribution."

    def density(t):
        return math.exp(
            math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - (freedom + 1) / 2 * math.log1p(t * t / freedom)
        ) / math.sqrt(freedom * math.pi)

    step, t, sum = 1e-3, 0.0, 0.5
    while sum < 0.95:
        sum += (density(t) + 4 * density(t + step / 2) + density(t + step)) * step / 6
        t += step
    return t


def late(times):
    return sorted(times)[len(times) * 99 // 100]


def responses(name, spans):
    "Response times in ms by time of arrival, of the requests that arrived in one of these spans of time."
    every = array.array("q")
    with open(f"{name}.times", "rb") as file:
        every.frombytes(file.read(os.path.getsize(file.name) // 16 * 16))
    return {at: took / 1e6 for at, took in zip(every[::2], every[1::2]) if any(start <= at < end for start, end in spans)}


def table(programs, held):
    exceeded = False
    print("| program | at | MB read | MB/s | minutes | requests | mean, ms | alone | slower | at most | 99th percentile, ms | alone | slower | at most |")
    print("|" + "---|" * 14)
    for program in dict.fromkeys(name.split("-")[0] for name in programs):
        for where in ("background", "foreground"):
            done, seconds, every, blocks = 0, 0.0, [], []
            # Copies of a program have drives and clients of their own: their blocks are as independent as those of one copy.
            for copy in (name for name in programs if name.split("-")[0] == program):
                # A program that has begun several times has so many spans of time, and as many logs.
                spans = sorted(tuple(map(int, open(span).read().split())) for span in glob.glob(f"{copy}.{where}.*.span"))
                if not spans:
                    continue
                done += sum(bytes for log in glob.glob(f"{copy}.{where}.*.log") for _, bytes in reads(log)[1])
                mine, its = (responses(f"{copy}{which}", spans) for which in ("", ".alone"))
                # Requests that arrived at one disk and were not answered before the end have no partner.
                both = [(mine[at], its[at]) for at in sorted(mine.keys() & its.keys())]
                took = sum(end - start for start, end in spans) / 1e9
                count = max(BLOCKS, int(took / BLOCK_S))
                # Blocks of equal numbers of requests, which are of equal time but for chance.
                blocks += [both[n * len(both) // count : (n + 1) * len(both) // count] for n in range(count)]
                seconds, every = seconds + took, every + both
            if not blocks:
                continue
            row = f"| {program} | {where} | {done / 1e6:.0f} | {done / 1e6 / seconds:.2f} | {seconds / 60:.1f} | {len(every)} |"
            # A program that is done at once has met too few of them.
            if not all(blocks):
                print(row + " |" * 8)
                continue
            cells = []
            for of in (statistics.fmean, late):
                here, alone = (of([pair[side] for pair in every]) for side in (0, 1))
                gaps = [(of([pair[0] for pair in block]) - of([pair[1] for pair in block])) / alone for block in blocks]
                slower = statistics.fmean(gaps)
                upper = slower + quantile(len(blocks) - 1) * statistics.stdev(gaps) / math.sqrt(len(blocks))
                exceeded |= held and where == "background" and upper > BOUND
                # At the disk's own export a program is done after seconds: the figures of all requests, without an interval.
                shown = f"{slower * 100:.2f}% | {upper * 100:.2f}%" if where == "background" else f"{(here / alone - 1) * 100:.0f}% |"
                cells.append(f"{here:.2f} | {alone:.2f} | {shown}")
            print(f"{row} {' | '.join(cells)} |")
    sys.exit("the upper end of an interval is over the bound of 1%" if exceeded else 0)


if sys.argv[1] == "load":
    seconds, rate, first = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    disks = [(name, socket, float(writes)) for name, socket, writes in (disk.split(":") for disk in sys.argv[5:])]
    start = time.time_ns() + 10**9
    each = [multiprocessing.Process(target=load, args=(seconds, rate, first, disk, start)) for disk in disks]
    [one.start() for one in each]
    signal.signal(signal.SIGTERM, lambda *_: [one.terminate() for one in each])
    [one.join() for one in each]
    sys.exit(any(one.exitcode for one in each))
elif sys.argv[1] in ("reads", "answers"):
    for read in reads(sys.argv[2])[sys.argv[1] == "answers"]:
        print(*read)
elif sys.argv[1] == "runs":
    end, lines = 0, []
    for offset, length, under_way in reads(sys.argv[2])[0]:
        lines.append((offset // 512 - end, length // 512, under_way))
        end = (offset + length) // 512
    for line, same in itertools.groupby(lines):
        print(len(list(same)), *line)
else:
    table(sys.argv[3:], sys.argv[2] == "held")
