//! Commands between a core and a device that finishes them in any order.

use freeblock::{
    Action, Bytes, Command, Commands, Config, Core, DriveModel, Instant, Lbn, LbnRange, Op, Outcome,
    OutsideConfig, Request, RequestId, Sectors,
};
use proptest::prelude::*;

/// Carries out requests on a device that finishes what it has in the order of `picks`. Returns the commands in the order of the core,
/// and in the order in which the device finished them.
fn carry_out(requests: &[(bool, u64, u64)], picks: &[usize]) -> (Vec<Command>, Vec<Command>) {
    let drive = DriveModel::unknown(Sectors::new(100_000), Bytes::new(512)).unwrap();
    let config = Config::outside(OutsideConfig::blind().serving());
    let mut core = Core::new(drive.into(), config);
    for (id, (write, start, len)) in (0..).zip(requests) {
        let op = if *write { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(*start), Sectors::new(*len));
        core.submit(Instant::ZERO, Request { id: RequestId::new(id), op, range }).unwrap();
    }
    let (mut commands, mut sent, mut done) = (Commands::default(), Vec::new(), Vec::new());
    let (mut at_device, mut picks) = (Vec::new(), picks.iter().cycle());
    for ms in 1.. {
        let now = Instant::from_nanos(ms * 1_000_000);
        while let Some(action) = core.poll(now) {
            if let Action::Send(command) = action {
                sent.push(command);
                commands.push(command);
            }
        }
        while let Some(command) = commands.next() {
            at_device.push(command);
        }
        assert_eq!(commands.at_device(), at_device.len());
        if at_device.is_empty() {
            break;
        }
        let command = at_device.swap_remove(picks.next().unwrap() % at_device.len());
        assert_eq!(commands.done(command.id), Some(command));
        core.command_done(now, command.id, Outcome::Done);
        done.push(command);
    }
    assert!(commands.is_empty());
    (sent, done)
}

proptest! {
    #[test]
    fn commands_that_overlap_are_done_in_their_order_and_none_is_held_back_for_ever(
        requests in prop::collection::vec((any::<bool>(), 0..40u64, 1..12u64), 1..40),
        picks in prop::collection::vec(any::<usize>(), 1..20),
    ) {
        let (sent, done) = carry_out(&requests, &picks);
        prop_assert_eq!(sent.len(), done.len());
        let place = |command: &Command| done.iter().position(|other| other.id == command.id);
        for (at, later) in sent.iter().enumerate() {
            for earlier in &sent[..at] {
                if (earlier.op.is_write() || later.op.is_write()) && earlier.range.overlaps(later.range) {
                    prop_assert!(place(earlier) < place(later), "{} and {}", earlier.id, later.id);
                }
            }
        }
    }
}

#[test]
fn commands_that_do_not_conflict_are_at_the_device_together() {
    let (sent, done) =
        carry_out(&[(false, 0, 8), (false, 4, 8), (true, 20, 8), (true, 40, 8)], &[3, 2, 1, 0]);
    assert_ne!(sent, done, "a device that is free to choose has finished all in the order of the core");
}
