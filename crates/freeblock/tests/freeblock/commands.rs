//! Commands between a core and a device that finishes them in any order.

use freeblock::{
    Bytes, Command, Commands, Config, DriveModel, Instant, Lbn, LbnRange, Op, Output, OutsideConfig,
    OutsideDrive, Request, RequestId, Sectors,
};
use proptest::prelude::*;

/// Returns commands with ids of a core, and with these directions and ranges.
fn commands(of: &[(bool, u64, u64)]) -> Vec<Command> {
    let drive = DriveModel::unknown(Sectors::new(100_000), Bytes::new(512)).unwrap();
    let mut core = OutsideDrive::new(drive.into(), Config::outside(OutsideConfig::blind().serving()));
    for id in 0..of.len() as u64 {
        let range = LbnRange::new(Lbn::new(1_000 * id), Sectors::new(8));
        core.submit(Instant::ZERO, Request { id: RequestId::new(id), op: Op::Read, range }).unwrap();
    }
    let mut sent = Vec::new();
    while let Some(output) = core.poll(Instant::ZERO) {
        if let Output::Do(command) = output {
            sent.push(command);
        }
    }
    assert_eq!(sent.len(), of.len(), "the core sends each request while the drive chooses the order");
    let changed = sent.into_iter().zip(of).map(|(command, (write, start, len))| {
        let op = if *write { Op::Write } else { Op::Read };
        Command { op, range: LbnRange::new(Lbn::new(*start), Sectors::new(*len)), ..command }
    });
    changed.collect()
}

/// Returns the commands in the order in which a device finishes them that takes the one of `picks` among those that it has.
fn carry_out(sent: &[Command], picks: &[usize]) -> Vec<Command> {
    let (mut commands, mut at_device, mut done) = (Commands::default(), Vec::new(), Vec::new());
    sent.iter().for_each(|command| commands.push(command.clone()));
    for pick in picks.iter().cycle() {
        while let Some(command) = commands.next() {
            at_device.push(command);
        }
        assert_eq!(commands.at_device(), at_device.len());
        if at_device.is_empty() {
            break;
        }
        let command: Command = at_device.swap_remove(pick % at_device.len());
        assert_eq!(commands.done(command.id).as_ref(), Some(&command));
        done.push(command);
    }
    assert!(commands.is_empty());
    done
}

proptest! {
    #[test]
    fn commands_that_overlap_are_done_in_their_order_and_none_is_held_back_for_ever(
        of in prop::collection::vec((any::<bool>(), 0..40u64, 1..12u64), 1..24),
        picks in prop::collection::vec(any::<usize>(), 1..20),
    ) {
        let sent = commands(&of);
        let done = carry_out(&sent, &picks);
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
    let sent = commands(&[(false, 0, 8), (false, 4, 8), (true, 20, 8), (true, 40, 8)]);
    let done = carry_out(&sent, &[3, 2, 1, 0]);
    assert!(done.iter().eq(sent.iter().rev()), "{done:?}");
}
