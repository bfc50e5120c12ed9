//! The forecast of a command, served from the medium or from the drive's read-ahead.

use super::forecast::{Behind, Forecast, HeldBack, Plain, Predicted, SetOut, Source, Standing};
use super::read_ahead::streamed;
use super::transfer::Transfer;
use crate::core::config::Overheads;
use crate::core::under_way::{Approach, Departure};
use model::{DriveModel, Piece, Position};
use units::{Duration, Instant, Op};

/// The sectors of a write that cross the bus before the medium side of a drive receives them: a page of 4 KiB (docs/MODEL.md).
pub(super) const BURST_SECTORS: u64 = 8;

impl Plain {
    /// Forecasts the request without detours again, from the state `from` of the drive.
    pub fn predict(
        &mut self,
        drive: &DriveModel,
        overheads: &Overheads,
        from: &Standing,
        held_back: HeldBack,
        what: Transfer,
    ) {
        let predicted = forecast(drive, overheads, from, self.sent, held_back, what).forecast;
        (self.end, self.heard) = (predicted.end, predicted.heard);
    }
}

/// Returns the forecast of a command for `range` that reaches the drive at `sent`, and the state of the drive after it.
pub(super) fn forecast(
    drive: &DriveModel,
    overheads: &Overheads,
    from: &Standing,
    sent: Instant,
    held_back: HeldBack,
    Transfer { op, range }: Transfer,
) -> Predicted {
    if op == Op::Read
        && let Some(predicted) = streamed(drive, overheads, from, sent, held_back, range)
    {
        return predicted;
    }
    let service = from.ready.max(sent);
    let taken_in = if overheads.overlap { sent } else { service } + overheads.command(op);
    // Without a queue in the drive the head is free when the command is decoded, unless it has cached writes to write.
    let set_out = from.free.max(taken_in);
    let waited_for = if set_out > taken_in { SetOut::Queued } else { SetOut::Alone };
    // With a queue, the drive decodes the command during the command before.
    let begun = if overheads.overlap { sent } else { service };
    let mut done: Option<Forecast> = None;
    let mut at = *from;
    at.free = set_out;
    // The number of sectors in the read's tail, which a zero-latency drive reads first. A request on several tracks is read in
    // order.
    let mut waiting = 0;
    // The start of the pass of those sectors whose data cross the bus first.
    let mut front = None;
    // Sectors of the request up to the end of the current piece. A drive that has received all of them may write them in any order.
    let mut written = 0;
    // A write's data follow the decoding of the command and the data of a read before it.
    let bus_from = (begun + overheads.command(op)).max(if overheads.overlap { from.bus } else { begun });
    // A drive that caches writes starts this write when the earlier ones are on the medium.
    let writes_back = op.is_write() && overheads.write_back;
    let bus_from = if writes_back { bus_from.max(service).max(from.free) } else { bus_from };
    let whole = |piece: &Piece| u64::from(piece.len) == range.len().get();
    for piece in drive.layout().pieces(range) {
        let earliest = match (&done, op) {
            (None, Op::Read) => begun + overheads.shortest_access,
            _ => at.free,
        };
        let head = Departure { from: at.position, at: at.free };
        let mut approach = Approach::arriving_after(drive, head, earliest, op, &piece);
        let missed = approach.missed.take();
        let mut data_there = bus_from;
        if op.is_write() {
            let data = |sectors: u64| bus_from + overheads.bus_sector * sectors;
            written += u64::from(piece.len);
            // A drive that caches writes receives the sectors one by one.
            let burst = if overheads.write_back { 1 } else { BURST_SECTORS };
            let all = data(written.next_multiple_of(burst).min(range.len().get()));
            approach.missed = missed.filter(|&missed| all <= approach.rear_start(drive, &piece, missed));
            let first = if overheads.write_back {
                // Each sector's data must have arrived when the sector begins to pass: a write that directly follows the one
                // in progress is too late for this revolution.
                let passes = drive.rpm().time_within(drive.layout().track(piece.track).arc(piece.sector, 1));
                let behind = |others: u64| data(others + 1).checked_sub(passes * others).unwrap_or_default();
                behind(0).max(behind(u64::from(piece.len.saturating_sub(1))))
            } else {
                data(range.len().get().min(BURST_SECTORS))
            };
            data_there = first;
            if approach.missed.is_none() && done.is_none() && first > approach.arrive {
                approach = Approach::arriving_after(drive, head, first, op, &piece);
                approach.missed = None;
            }
        } else if whole(&piece) {
            // The tail's data wait for those of the front part before they cross the bus.
            approach.missed = missed;
            waiting = missed.map_or(0, |missed| piece.len - missed);
        }
        let able = taken_in.max(if op.is_write() { data_there } else { earliest });
        let (start, end) = (approach.start(drive), approach.end(drive, &piece));
        if !op.is_write() {
            let passes =
                |missed| drive.rpm().time_within(drive.layout().track(piece.track).arc(piece.sector, missed));
            front = approach.missed.and_then(|missed| end.checked_sub(passes(missed)));
        }
        let to = Position::from(approach.track);
        let first = done.get_or_insert(Forecast {
            service,
            able,
            arrive: approach.arrive,
            start: if approach.missed.is_some() { approach.arrive } else { start },
            end,
            heard: end,
            heard_at_latest: end,
            distance: at.position.cylinder.distance(to.cylinder),
            moves: at.position != to,
            in_two_parts: approach.missed.is_some(),
            wait: start.saturating_since(approach.arrive),
            rear: approach.rear(drive, &piece).unwrap_or_default(),
            set_out: (approach.arrive == set_out + drive.move_time(from.position, to, op))
                .then_some(waited_for),
            source: Source::Medium,
        });
        first.end = end;
        at = Standing { position: to, track: Some(piece.track), free: end, ready: end, ..*from };
    }
    let sectors = range.len().get();
    let mut done = done.unwrap_or(Forecast {
        service,
        able: set_out,
        arrive: set_out,
        start: set_out,
        end: set_out,
        heard: set_out,
        heard_at_latest: set_out,
        distance: 0,
        moves: false,
        in_two_parts: false,
        wait: Duration::ZERO,
        rear: Duration::ZERO,
        set_out: None,
        source: Source::Medium,
    });
    let bus = overheads.bus_sector * sectors;
    let tail = overheads.tail(op);
    (done.heard, at.bus) = if op.is_write() {
        let crossed = bus_from + bus;
        (if writes_back { crossed } else { done.end } + tail, crossed)
    } else {
        // The bus may be slower than the medium, or busy.
        let first = front.unwrap_or(done.start);
        let first = if overheads.overlap { first.max(from.bus) } else { first };
        let last = done.end + overheads.bus_sector * (u64::from(waiting) + 1);
        let crossed = last.max(first + bus);
        let latest = crossed + held_back.of(bus);
        let after = overheads.after_bus();
        done.heard_at_latest = latest + after;
        (crossed + after, latest)
    };
    done.heard_at_latest = done.heard_at_latest.max(done.heard);
    at.ready = if overheads.overlap { done.end } else { done.heard };
    at.behind = (op == Op::Read).then(|| {
        let sequence = from.behind.is_some_and(|behind| behind.follows(drive, range));
        Behind { lbn: range.end(), at: done.end, sequence }
    });
    at.reported = writes_back.then(|| range.end());
    Predicted { forecast: done, after: at.reading_on(drive) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::builtin;
    use units::{Lbn, LbnRange, Sectors};

    #[test]
    fn a_cached_write_that_continues_the_one_in_progress_is_a_revolution_late() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let revolution = crate::core::under_way::revolution(&drive);
        for overlap in [false, true] {
            let overheads = Overheads {
                command: [Duration::from_micros(300); 2],
                completion: [Duration::from_micros(10); 2],
                bus_sector: Duration::from_micros(6),
                shortest_access: Duration::ZERO,
                overlap,
                write_back: true,
                if_through: None,
            };
            let mut at = Standing::at_rest(Position::default(), None);
            let mut sent = Instant::ZERO;
            // The second write is sent when the first one is reported.
            let [first, second] = [100_000, 100_008].map(|start| {
                let range = LbnRange::new(Lbn::new(start), Sectors::new(8));
                let what = Transfer::new(Op::Write, range);
                let Predicted { forecast: seen, after } =
                    forecast(&drive, &overheads, &at, sent, HeldBack::default(), what);
                at = Standing { ready: if overlap { after.free } else { seen.heard }, ..after };
                sent = seen.heard;
                seen
            });
            assert!(first.end > first.heard + Duration::from_millis(1), "the head has still to come there");
            assert!(second.heard > first.end, "its data wait until the first is on the medium");
            assert!(second.end > first.end + revolution && second.end < first.end + revolution * 2);
        }
    }
}
