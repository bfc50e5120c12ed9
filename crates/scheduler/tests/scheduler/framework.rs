//! FAST'04's additions to the use of rotational gaps: several sessions, writes, idle time, errors, lost commands.

use freeblock_scheduler::{
    Bad, Buffers, Config, HeadWork, IdleTime, InDrive, Output, Parameter, Priority, Purpose, Ready, Record,
    Request, SessionError, Sessions, Sharing, Wanted, Whose,
};
use model::{DriveModel, builtin};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};

/// A host of a core in an Atlas 10K. The work ends when the core predicts it.
struct FrameworkHost {
    core: InDrive,
    drive: Arc<DriveModel>,
    now: Instant,
    requests: u64,
    records: Vec<Record>,
    failed: Vec<(RequestId, Lbn)>,
    bad: Vec<Lbn>,
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

fn priority(priority: u8) -> Priority {
    Priority::new(priority).unwrap()
}

const BLOCK: Sectors = Sectors::new(8);

impl FrameworkHost {
    fn new(config: Config) -> Self {
        let profile = builtin::find("quantum-atlas-10k").unwrap();
        let drive = Arc::new(DriveModel::from_profile(&profile).unwrap());
        Self {
            core: InDrive::new(Arc::clone(&drive), config),
            drive,
            now: Instant::ZERO,
            requests: 0,
            records: Vec::new(),
            failed: Vec::new(),
            bad: Vec::new(),
        }
    }

    fn open(&mut self, priority: Priority) -> SessionId {
        self.core.open(priority).unwrap()
    }

    fn read(&mut self, session: SessionId, range: LbnRange) {
        self.core.read(session, range, BLOCK, Parameter(range.start().get())).unwrap();
    }

    fn write(&mut self, session: SessionId, range: LbnRange) {
        self.core.write(session, range, BLOCK, Parameter(range.start().get())).unwrap();
    }

    fn submit(&mut self, op: Op, range: LbnRange) -> RequestId {
        self.requests += 1;
        let id = RequestId::new(self.requests);
        self.core.submit(self.now, Request { id, op, range }).unwrap();
        id
    }

    /// Runs the core until it has nothing to do before `end`.
    fn run(&mut self, end: Instant, buffers: &mut dyn Buffers) {
        loop {
            while let Some(output) = self.core.poll_with(self.now, buffers) {
                match output {
                    Output::Deliver(record) => self.records.push(record),
                    Output::Failed { id, bad } => self.failed.push((id, bad)),
                    Output::Do(_) | Output::Completed(_) => {}
                }
            }
            let next = self.core.busy_until().or_else(|| self.core.wake_at()).filter(|at| *at <= end);
            let Some(next) = next else { break };
            self.now = self.now.max(next);
            if self.core.busy_until().is_some() {
                let met: Vec<Lbn> = self.bad.iter().copied().filter(|lbn| self.meets(*lbn)).collect();
                self.core.completed_with(self.now, &met);
            }
        }
    }

    /// Returns whether the accesses under way include a sector.
    fn meets(&self, lbn: Lbn) -> bool {
        let at = self.drive.layout().locate(lbn).unwrap();
        self.core.accesses().iter().any(|a| {
            let sectors = self.drive.layout().track(a.track).sectors;
            a.track == at.track && (at.sector + sectors - a.sector) % sectors < a.sectors
        })
    }

    /// Serves a number of random foreground reads, one after the other.
    fn busy(&mut self, requests: u64, buffers: &mut dyn Buffers) {
        let capacity = self.drive.layout().capacity().get();
        for _ in 0..requests {
            let start = self.requests.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (capacity - 8);
            self.submit(Op::Read, range(start, 8));
            while self.core.pending() > 0 || self.core.busy_until().is_some() {
                let end = self.core.busy_until().unwrap_or(self.now);
                self.run(end, buffers);
            }
        }
    }

    fn delivered(&self) -> BTreeMap<SessionId, usize> {
        let mut count = BTreeMap::new();
        for record in &self.records {
            *count.entry(record.session).or_default() += 1;
        }
        count
    }
}

/// Buffers that are never available for some sessions.
struct Not(Vec<SessionId>);

impl Buffers for Not {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        !self.0.contains(&wanted.session)
    }
}

#[test]
fn sessions_share_by_priority() {
    let mut host = FrameworkHost::new(Config::default());
    let capacity = host.drive.layout().capacity().get();
    let (low, high) = (host.open(priority(10)), host.open(priority(30)));
    // The sessions' blocks are far apart, so that no access serves both.
    for i in 0..2_000 {
        host.read(low, range(i * capacity / 2_000 / 8 * 8, 800));
        host.read(high, range((i * capacity / 2_000 + capacity / 4_000) / 8 * 8, 800));
    }
    host.busy(6_000, &mut Ready);
    let delivered = host.delivered();
    let ratio = delivered[&high] as f64 / delivered[&low] as f64;
    assert!((2.0..4.5).contains(&ratio), "{delivered:?}");
}

#[test]
fn a_new_priority_counts_from_then_on() {
    let mut host = FrameworkHost::new(Config::default());
    let capacity = host.drive.layout().capacity().get();
    let (low, high) = (host.open(priority(30)), host.open(priority(10)));
    host.core.set_priority(low, priority(10)).unwrap();
    host.core.set_priority(high, priority(30)).unwrap();
    let strange = SessionId::new(99);
    assert_eq!(host.core.set_priority(strange, priority(1)), Err(SessionError::NoSession(strange)));
    for i in 0..2_000 {
        host.read(low, range(i * capacity / 2_000 / 8 * 8, 800));
        host.read(high, range((i * capacity / 2_000 + capacity / 4_000) / 8 * 8, 800));
    }
    host.busy(6_000, &mut Ready);
    let delivered = host.delivered();
    let ratio = delivered[&high] as f64 / delivered[&low] as f64;
    assert!((2.0..4.5).contains(&ratio), "{delivered:?}");
}

/// FAST'04, section 6.6: a scan of the whole drive starves a session with few blocks, unless there is a lottery.
#[test]
fn a_scan_starves_others_only_where_the_most_blocks_win() {
    let share = |sharing| {
        let mut host = FrameworkHost::new(Config::default().with_sharing(sharing));
        let capacity = host.drive.layout().capacity().get();
        let (scan, few) = (host.open(Priority::default()), host.open(Priority::default()));
        host.read(scan, range(0, capacity));
        // No access of the scan serves these writes of single blocks.
        for i in 0..5_000 {
            host.write(few, range(i * (capacity / 5_000) / 8 * 8, 8));
        }
        host.busy(2_000, &mut Ready);
        (host.delivered()[&scan], host.delivered().get(&few).copied().unwrap_or(0))
    };
    let (greedy, lottery) = (share(Sharing::Greedy), share(Sharing::Lottery));
    assert!(greedy.1 * 20 < lottery.1, "{greedy:?} {lottery:?}");
    assert!(lottery.0 * 3 > greedy.0, "{greedy:?} {lottery:?}");
}

/// By FAST'04, section 5.2, the blocks of all sessions near source and destination are candidates for the time behind the
/// winner's detour.
#[test]
fn the_rest_of_the_winners_gap_goes_to_the_others() {
    let mut host = FrameworkHost::new(Config::default());
    let capacity = host.drive.layout().capacity().get();
    let (scan, few) = (host.open(priority(1)), host.open(priority(100)));
    host.read(scan, range(0, capacity));
    for i in 0..5_000 {
        host.write(few, range(i * (capacity / 5_000) / 8 * 8, 8));
    }
    let mut both = 0;
    for _ in 0..1_000 {
        let before = host.delivered();
        host.busy(1, &mut Ready);
        let after = host.delivered();
        let got = |session| after.get(&session).unwrap_or(&0) - before.get(&session).unwrap_or(&0);
        // The request itself reads one or two blocks of the scan.
        both += u32::from(got(few) > 0 && got(scan) > 3);
    }
    assert!(both > 250, "in {both} gaps of 1,000 the scan got something beside the winner");
}

/// The head would wait on the track for the first sector of the winner's write; until then other sessions use the time,
/// and the foreground's requests end at the same instants as without any session.
#[test]
fn the_time_before_the_winners_write_goes_to_the_others_and_costs_the_foreground_nothing() {
    let mut host = FrameworkHost::new(Config::default());
    let mut alone = FrameworkHost::new(Config::default());
    let capacity = host.drive.layout().capacity().get();
    let (scan, few) = (host.open(priority(1)), host.open(priority(100)));
    host.read(scan, range(0, capacity));
    for i in 0..5_000 {
        host.write(few, range(i * (capacity / 5_000) / 8 * 8, 8));
    }
    let mut before_a_write = 0;
    for i in 0..1_000u64 {
        let start = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (capacity - 8);
        let end = [&mut host, &mut alone].map(|host| {
            host.submit(Op::Read, range(start, 8));
            host.run(host.now, &mut Ready);
            let gap = host.core.accesses().iter().map(|access| (access.op, access.purpose));
            let gap: Vec<Op> =
                gap.filter(|(_, purpose)| *purpose != Purpose::Foreground).map(|(op, _)| op).collect();
            before_a_write += u32::from(gap.starts_with(&[Op::Read]) && gap.contains(&Op::Write));
            let end = host.core.busy_until().unwrap();
            host.run(end, &mut Ready);
            end
        });
        assert_eq!(end[0], end[1], "request {i}");
    }
    assert!(before_a_write > 250, "in {before_a_write} gaps of 1,000 something is read before a write");
}

/// By FAST'04, section 5.2, the second phase of the search gives the winner strict priority, and examines all other
/// options as well.
#[test]
fn a_gap_with_nothing_for_the_winner_goes_to_the_others_wherever_their_blocks_lie() {
    let run = |winner: bool| {
        let mut host = FrameworkHost::new(Config::default());
        let capacity = host.drive.layout().capacity().get();
        let other = host.open(priority(1));
        // The blocks are so few that most gaps find none near.
        for i in 0..4_000 {
            host.read(other, range(i * (capacity / 4_000) / 8 * 8, 8));
        }
        if winner {
            // The winner's block is out of reach of most gaps, and its tasks are never all done.
            let winner = host.open(priority(100));
            (0..200).for_each(|_| host.read(winner, range(capacity - 8, 8)));
        }
        host.busy(600, &mut Ready);
        host.delivered()[&other]
    };
    let (alone, beside) = (run(false), run(true));
    assert!(beside * 10 > alone * 9, "{beside} blocks, alone {alone}");
}

#[test]
fn a_session_that_never_has_a_buffer_does_not_keep_others_waiting() {
    let mut host = FrameworkHost::new(Config::default().with_idle(Some(IdleTime::default())));
    let capacity = host.drive.layout().capacity().get();
    let (never, other) = (host.open(priority(100)), host.open(priority(1)));
    host.write(never, range(0, capacity));
    for i in 0..200 {
        host.read(other, range(i * (capacity / 200) / 8 * 8, 8));
    }
    host.run(host.now + Duration::from_secs(100), &mut Not(vec![never]));
    assert_eq!(host.delivered(), BTreeMap::from([(other, 200)]));
    assert!(host.records.last().unwrap().last);
}

/// A winner that refuses everything does not waste its gap.
#[test]
fn the_gap_of_a_winner_without_buffers_goes_to_the_others() {
    let run = |never: bool| {
        let mut host = FrameworkHost::new(Config::default());
        let capacity = host.drive.layout().capacity().get();
        let other = host.open(priority(1));
        let mut not = Vec::new();
        if never {
            not.push(host.open(priority(100)));
        }
        // The sessions' ranges alternate and have several tracks, so that a detour serves one session.
        for i in 0..capacity / 2_000 {
            match not.first() {
                Some(&never) if i % 2 == 0 => host.write(never, range(i * 2_000, 2_000)),
                _ if i % 2 == 1 => host.write(other, range(i * 2_000, 2_000)),
                _ => {}
            }
        }
        host.busy(400, &mut Not(not));
        host.delivered()[&other]
    };
    let (alone, beside) = (run(false), run(true));
    assert!(beside * 10 > alone * 8, "{beside} blocks beside one that never has a buffer, {alone} alone");
}

/// Foreground data are newer than background writes that wait (promise 3).
#[test]
fn a_foreground_write_is_not_overwritten_by_older_background_writes() {
    let mut host = FrameworkHost::new(Config::default());
    let session = host.open(Priority::default());
    host.write(session, range(1_000, 16));
    host.core.suspend(session).unwrap();
    // The foreground overwrites the whole first block and a part of the second.
    host.submit(Op::Write, range(996, 16));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.records.len(), 1, "{:?}", host.records);
    assert_eq!((host.records[0].range, host.records[0].op), (range(1_000, 8), Op::Write));
    host.core.resume(session).unwrap();
    host.core.promote(session, range(1_008, 8)).unwrap();
    assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Execute)));
    let written: Vec<(Op, u32)> = host.core.accesses().iter().map(|a| (a.op, a.sectors)).collect();
    assert_eq!(written, [(Op::Write, 4)], "only what the foreground left");
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert!(host.records[1].last);
}

#[test]
fn one_write_serves_reads_of_the_place_unless_they_want_the_medium() {
    let mut host = FrameworkHost::new(Config::default());
    let (reader, scrubber) = (host.open(Priority::default()), host.open(Priority::default()));
    host.core.serve_reads_by_writes(scrubber, false).unwrap();
    host.read(reader, range(400_000, 8));
    host.read(scrubber, range(400_000, 8));
    host.submit(Op::Write, range(400_000, 8));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.delivered(), BTreeMap::from([(reader, 1)]));
    host.submit(Op::Read, range(400_000, 8));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.delivered(), BTreeMap::from([(reader, 1), (scrubber, 1)]));
}

/// A bad sector fails no other block and no other request (promise 4).
#[test]
fn a_bad_sector_costs_its_own_block_only() {
    let mut host = FrameworkHost::new(Config::default());
    let session = host.open(Priority::default());
    host.read(session, range(0, 80));
    host.bad = vec![Lbn::new(21), Lbn::new(22)];
    let foreground = host.submit(Op::Read, range(16, 8));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.failed, [(foreground, Lbn::new(21))]);
    host.core.promote(session, range(0, 80)).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    let bad: Vec<(LbnRange, Option<Lbn>)> =
        host.records.iter().filter(|r| r.bad.is_some()).map(|r| (r.range, r.bad)).collect();
    assert_eq!(bad, [(range(16, 8), Some(Lbn::new(21)))]);
    assert_eq!(host.records.len(), 10);
    assert!(host.records.last().unwrap().last);
}

#[test]
fn a_lost_request_is_repeated() {
    let mut host = FrameworkHost::new(Config::default());
    let session = host.open(Priority::default());
    let capacity = host.drive.layout().capacity();
    host.read(session, LbnRange::new(Lbn::ZERO, capacity));
    let before = host.core.undelivered(session).unwrap();
    host.submit(Op::Read, range(9_000_000, 8));
    assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Execute)));
    assert!(host.core.accesses().len() > 1, "there is a detour to lose");
    host.core.lost(host.now + Duration::from_millis(100));
    host.now += Duration::from_millis(100);
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.core.pending(), 0);
    // The repeated request has read its own block; the lost detour's blocks are still wanted.
    assert_eq!(host.records.iter().map(|r| r.range).collect::<Vec<_>>(), [range(9_000_000, 8)]);
    assert_eq!(host.core.undelivered(session), Some(before - 1));
}

#[test]
fn idle_time_that_cannot_be_used_is_refused_by_field() {
    let refused = |idle| {
        let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap());
        let config = Config::default().with_idle(Some(idle));
        InDrive::try_new(drive, config).map(|_| ()).map_err(|error| error.to_string())
    };
    let usual = IdleTime::default();
    assert_eq!(refused(usual), Ok(()));
    assert_eq!(refused(usual.with_harm_ppm(1_000_000).with_threshold(Duration::from_nanos(1))), Ok(()));
    for (idle, field) in [
        (usual.with_threshold(Duration::ZERO), "idle.threshold is 0 ns; give 1 ns"),
        (usual.with_threshold(Duration::MAX), "idle.threshold is 18446744073709551615 ns; give 1 ns"),
        (usual.with_harm_ppm(1_000_001), "idle.harm_ppm is 1000001 millionths; give 0"),
    ] {
        let error = refused(idle).unwrap_err();
        assert!(error.starts_with(field), "{error}");
    }
}

/// By FAST'04, section 5.2, only the track under the head is read until 20 ms have passed.
#[test]
fn idle_time_begins_on_the_track_under_the_head_and_goes_on_at_the_edges() {
    let mut host = FrameworkHost::new(Config::default().with_idle(Some(IdleTime::default())));
    let session = host.open(Priority::default());
    let capacity = host.drive.layout().capacity();
    host.submit(Op::Read, range(9_000_000, 8));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    host.read(session, LbnRange::new(Lbn::ZERO, capacity));
    host.submit(Op::Read, range(9_000_000, 8));
    let here = host.drive.layout().locate(Lbn::new(9_000_000)).unwrap().track;
    let foreground_done = host.now + Duration::from_millis(7);
    host.run(foreground_done + Duration::from_millis(19), &mut Ready);
    assert!(host.records.len() > 20, "{} blocks in the first 19 ms", host.records.len());
    for record in host.records.drain(..) {
        let locate = |lbn| host.drive.layout().locate(lbn).unwrap().track;
        let last = Lbn::new(record.range.end().get() - 1);
        assert!(locate(record.range.start()) == here || locate(last) == here, "{record:?}");
    }
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    let middle = capacity.get() / 2;
    let near_edges = host.records.iter().filter(|r| {
        let lbn = r.range.start().get();
        lbn.abs_diff(middle) > middle * 8 / 10
    });
    let (near_edges, all) = (near_edges.count(), host.records.len());
    assert!(near_edges * 10 > all * 9, "{near_edges} of {all} near the edges");
}

#[test]
fn a_request_that_comes_in_idle_time_finds_the_head_free_at_once_on_its_track() {
    let idle = IdleTime::default().with_harm_ppm(0);
    let mut host = FrameworkHost::new(Config::default().with_idle(Some(idle)));
    let session = host.open(Priority::default());
    let track = host.drive.layout().track_at(units::Cylinder::new(0), units::Head::new(0)).unwrap();
    host.read(session, range(0, host.drive.layout().track(track).sectors.into()));
    assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Execute)));
    assert!(host.core.accesses().iter().all(|a| matches!(a.purpose, Purpose::Idle { .. })));
    let planned = host.core.accesses()[0].sectors;
    // A third of a revolution later.
    host.now += Duration::from_millis(2);
    host.submit(Op::Read, range(9_000_000, 8));
    assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Cut)));
    assert_eq!(host.core.busy_until(), Some(host.now));
    let done: u32 = host.core.accesses().iter().map(|a| a.sectors).sum();
    assert!(done < planned, "{done} of {planned}");
    host.run(host.now + Duration::from_millis(1), &mut Ready);
    let delivered: u64 = host.records.iter().map(|r| r.range.len().get()).sum();
    assert!(delivered > 0 && delivered <= u64::from(done), "{delivered} of {done}");
}

#[test]
fn the_same_seed_gives_the_same_winners() {
    let run = |seed| {
        let mut host = FrameworkHost::new(Config::default().with_seed(seed));
        let capacity = host.drive.layout().capacity().get();
        for part in 0..3 {
            let session = host.open(Priority::default());
            host.read(session, range(part * (capacity / 3), capacity / 3));
        }
        host.busy(200, &mut Ready);
        host.records
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn promotions_of_a_suspended_session_wait_for_its_resume() {
    let mut host = FrameworkHost::new(Config::default());
    let session = host.open(Priority::default());
    host.read(session, range(0, 80));
    host.core.suspend(session).unwrap();
    assert_eq!(host.core.promote(session, range(0, 40)), Ok(5));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert!(host.records.is_empty());
    host.core.resume(session).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.delivered(), BTreeMap::from([(session, 5)]));
    // A session that is suspended after the promotion waits, too.
    host.core.promote(session, range(40, 40)).unwrap();
    host.core.suspend(session).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.delivered(), BTreeMap::from([(session, 5)]));
    host.core.resume(session).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.delivered(), BTreeMap::from([(session, 10)]));
}

#[test]
fn promoted_work_ends_with_its_session_and_is_done_for_no_other() {
    let mut host = FrameworkHost::new(Config::default());
    let (scan, urgent) = (host.open(Priority::default()), host.open(Priority::default()));
    host.read(scan, range(0, 9_000_000));
    host.read(urgent, range(400_000, 8));
    host.core.promote(urgent, range(400_000, 8)).unwrap();
    host.core.close(urgent).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.core.pending(), 0);
    assert!(host.records.is_empty(), "{:?}", host.records);
}

/// A client cannot fill the space of the foreground (promise 5).
#[test]
fn promotions_do_not_make_the_core_refuse_the_foreground() {
    let mut host = FrameworkHost::new(Config::default().with_most_pending(3));
    let session = host.open(Priority::default());
    host.read(session, range(0, 8));
    let promoted: Vec<u64> = (0..5).map(|_| host.core.promote(session, range(0, 8)).unwrap()).collect();
    assert_eq!(promoted, [1, 1, 1, 0, 0]);
    for i in 0..3 {
        host.submit(Op::Read, range(1_000 * i, 8));
    }
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.core.pending(), 0);
}

#[test]
fn failed_reads_and_failed_writes_are_distinguished() {
    let run = |bad: Bad<'_>| {
        let mut host = FrameworkHost::new(Config::default());
        let (reader, writer) = (host.open(Priority::default()), host.open(Priority::default()));
        // The foreground's write completes both the read and the write.
        host.read(reader, range(400_000, 8));
        host.write(writer, range(400_000, 8));
        let id = host.submit(Op::Write, range(400_000, 8));
        assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Execute)));
        assert_eq!(host.core.whose(), Some(Whose::Request(id)));
        host.now = host.core.busy_until().unwrap();
        host.core.completed_with(host.now, bad);
        host.run(host.now, &mut Ready);
        let records: Vec<Option<Lbn>> = host.records.iter().map(|r| r.bad).collect();
        (host.failed.len(), records)
    };
    let lbn = [Lbn::new(400_003)];
    assert_eq!(run(Bad { read: &lbn, written: &[] }), (0, vec![None, None]));
    assert_eq!(run(Bad { read: &[], written: &lbn }), (1, vec![Some(lbn[0]); 2]));
    assert_eq!(run(Bad::from(&lbn)), (1, vec![Some(lbn[0]); 2]));
}

#[test]
fn work_under_way_has_a_known_purpose() {
    let mut host = FrameworkHost::new(Config::default().with_idle(Some(IdleTime::default())));
    let session = host.open(Priority::default());
    assert_eq!(host.core.whose(), None);
    host.read(session, range(0, 8));
    host.core.promote(session, range(0, 8)).unwrap();
    assert_eq!(host.core.poll(host.now), Some(Output::Do(HeadWork::Execute)));
    assert_eq!(host.core.whose(), Some(Whose::Promoted(session)));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    host.read(session, range(8_000, 8));
    while host.core.poll(host.now) != Some(Output::Do(HeadWork::Execute)) {
        host.now = host.core.wake_at().unwrap();
    }
    assert_eq!(host.core.whose(), Some(Whose::Idle));
}

/// A record that was delivered before the abort cannot be marked as the last one any more.
#[test]
fn after_an_abort_a_client_knows_whether_more_comes() {
    let mut host = FrameworkHost::new(Config::default());
    let session = host.open(Priority::default());
    host.read(session, range(0, 24));
    host.core.promote(session, range(0, 8)).unwrap();
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.records.iter().map(|r| r.last).collect::<Vec<_>>(), [false]);
    host.core.abort_range(session, range(8, 8)).unwrap();
    assert_eq!(host.core.to_come(session), Ok(1));
    host.core.abort(host.records[0].task).unwrap();
    assert_eq!(host.core.to_come(session), Ok(0));
    host.core.close(session).unwrap();
    assert!(host.core.to_come(session).is_err());
}

/// Idle work has left the head far away from a promoted request, which takes longer for that reason.
#[test]
fn the_cost_of_idle_time_to_promoted_work_is_in_the_estimate() {
    let mut host = FrameworkHost::new(Config::default().with_idle(Some(IdleTime::default())));
    let session = host.open(Priority::default());
    let capacity = host.drive.layout().capacity().get();
    host.submit(Op::Read, range(capacity / 2, 8));
    host.run(host.now + Duration::from_millis(10), &mut Ready);
    host.read(session, range(0, 8));
    host.run(host.now + Duration::from_secs(1), &mut Ready);
    assert_eq!(host.records.len(), 1, "in idle time");
    let before = host.core.harm();
    host.read(session, range(capacity / 2 + 20_000, 8));
    host.core.promote(session, range(capacity / 2 + 20_000, 8)).unwrap();
    host.run(host.now + Duration::from_millis(1), &mut Ready);
    let after = host.core.harm();
    assert!(after.late + after.early > before.late + before.early, "{before:?} {after:?}");
    assert_eq!(after.foreground, before.foreground, "it is no foreground time of which a part may be lost");
}
