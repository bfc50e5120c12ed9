//! Measures how many commands the simulated drive serves per second of real time: `cargo run --release -p freeblock-drive
//! --example speed PROFILE.toml`. The commands are random reads and writes of eight sectors, one at a time.
#![allow(clippy::print_stdout, clippy::disallowed_methods, clippy::disallowed_types)]

use freeblock_drive::{Command, Drive};
use model::Profile;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("give a profile file")?;
    let mut drive = Drive::new(&Profile::from_toml(&std::fs::read_to_string(&path)?, &path)?)?;
    let capacity = drive.model().layout().capacity().get();
    let clock = std::time::Instant::now();
    let (mut now, mut state) = (Instant::ZERO, 1_u64);
    let n = 1_000_000;
    for i in 0..n {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let start = (state >> 16) % (capacity - 8);
        let op = if state >> 63 == 0 { Op::Read } else { Op::Write };
        let range = LbnRange::new(Lbn::new(start), Sectors::new(8));
        drive.submit(now, Command { id: RequestId::new(i), op, range })?;
        if let Some(at) = drive.next_event() {
            drive.advance(at);
        }
        while let Some(done) = drive.pop_completion() {
            now = done.at + Duration::from_millis(5);
        }
    }
    println!("{:.0} commands a second; the last at {now}", n as f64 / clock.elapsed().as_secs_f64());
    Ok(())
}
