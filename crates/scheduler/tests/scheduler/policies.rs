//! Policies that move the arm to other places than the next request.

use freeblock_scheduler::policy::PolicyName;
use freeblock_scheduler::{
    Config, HeadWork, InDrive, Output, Parameter, Priority, Purpose, Request, Sessions,
};
use model::{DriveModel, Position, builtin};
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn position(core: &InDrive, lbn: u64) -> Position {
    let layout = core.drive().layout();
    let piece = layout.pieces(LbnRange::new(Lbn::new(lbn), Sectors::new(1))).next().unwrap();
    layout.track(piece.track).into()
}

#[test]
fn the_trip_of_scan_to_the_end_takes_its_seeks_and_holds_no_detour_and_look_goes_straight() {
    let reversal = |policy| {
        let drive = DriveModel::from_profile(&builtin::find("mimic-less-capacity").unwrap()).unwrap();
        let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
        let capacity = drive.layout().capacity().get();
        let mut core = InDrive::new(Arc::new(drive), Config::default().with_policy(policy));
        let session = core.open(Priority::default()).unwrap();
        core.read(session, whole, Sectors::new(8), Parameter::default()).unwrap();
        let mut now = Instant::ZERO;
        let mut seen = Vec::new();
        for (id, lbn) in [capacity / 2, capacity / 4].into_iter().enumerate() {
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new(8));
            core.submit(now, Request { id: RequestId::new(id as u64), op: Op::Read, range }).unwrap();
            while let Some(output) = core.poll(now) {
                if output == Output::Do(HeadWork::Execute) {
                    seen = core.accesses().to_vec();
                    let set_out = now;
                    now = core.busy_until().unwrap();
                    core.completed(now);
                    if id == 1 {
                        return (core, set_out, seen);
                    }
                }
            }
        }
        panic!("the second request is not served: {seen:?}");
    };
    let (core, set_out, seen) = reversal(PolicyName::Scan);
    let drive = core.drive();
    let capacity = drive.layout().capacity().get();
    let (half, quarter, end) =
        (position(&core, capacity / 2), position(&core, capacity / 4), position(&core, capacity - 1));
    let over = set_out + drive.move_time(half, end, Op::Read) + drive.move_time(end, quarter, Op::Read);
    assert!(seen.iter().all(|access| access.purpose == Purpose::Foreground), "{seen:?}");
    assert_eq!(seen.last().unwrap().not_before, over);

    let (core, set_out, seen) = reversal(PolicyName::Look);
    let straight = set_out + core.drive().move_time(half, quarter, Op::Read);
    assert_eq!(seen.last().unwrap().not_before, straight);
    assert!(straight < over);
}
