//! `freeblock demo --web`: both runs of the demo on the page, in real time or at another speed.

use crate::Outcome;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::tables::{grouped, span};
use ::demo::{Asked, Demo, DemoError, OwnDrive};
use serde_json::Value;
use server::web::{PageContent, SnapshotSource, Web, WebConfig};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration as Wait, Instant as Clock};
use units::{Duration, Instant};

/// The interval at which the virtual clock follows the machine's.
const BEAT: Wait = Wait::from_millis(20);
/// The longest time for which a beat may simulate to catch up with the machine's clock; after that the virtual clock counts on
/// from its present time.
const BEHIND: Wait = Wait::from_millis(250);

/// The state that the page and the simulation share.
struct Stage {
    latest: Mutex<Value>,
    asked: Mutex<Asked>,
    /// The name of the drive that `--drive` gives.
    own: String,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SnapshotSource for Stage {
    fn snapshot(&self) -> Value {
        held(&self.latest).clone()
    }

    fn set(&self, asked: &Value) -> Result<(), String> {
        let mut now = held(&self.asked);
        *now = now.clone().changed(asked, Some(&self.own))?;
        Ok(())
    }
}

fn problem(error: DemoError) -> Problem {
    Problem::failed(error)
}

/// Shows the demo on a page until Ctrl-C.
pub(super) fn show(
    listen: SocketAddr,
    drive: OwnDrive,
    seed: u64,
    console: &Console,
) -> Result<Outcome, Problem> {
    let own = drive.name.clone();
    let asked = Asked { drive: own.clone(), seed, ..Asked::default() };
    let mut demo = Demo::new(asked.clone(), Some(drive), Instant::ZERO).map_err(problem)?;
    let latest = Mutex::new(demo.snapshot());
    let stage = Arc::new(Stage { latest, asked: Mutex::new(asked), own });
    let config = WebConfig { control: true, ..WebConfig::new(listen) };
    let web = Web::open(config, PageContent::Other(Arc::clone(&stage) as _)).map_err(Problem::usage)?;
    interrupt::watch(|| {});
    console.note(&format!("page at {}; Ctrl-C ends it", web.url()));
    let started = Clock::now();
    let now = || Instant::ZERO + Duration::try_from(started.elapsed()).unwrap_or(Duration::MAX);
    while !interrupt::came() && !console.is_stopped() {
        std::thread::sleep(BEAT);
        let (beat, begun) = (now(), Clock::now());
        let asked = held(&stage.asked).clone();
        if let Err(error) = demo.ask(asked, beat) {
            // The runs go on with the settings that they have.
            console.report(&problem(error));
            *held(&stage.asked) = demo.asked().clone();
        }
        while demo.step(beat).map_err(problem)? {
            if begun.elapsed() > BEHIND {
                demo.fall_behind(now());
                break;
            }
        }
        *held(&stage.latest) = demo.snapshot();
    }
    drop(web);
    let compared = demo.compared();
    let text = format!(
        "{} simulated; {} of {} completion times identical to the nanosecond\n",
        span(demo.simulated().as_secs_f64()),
        grouped(compared.same),
        grouped(compared.all)
    );
    Ok(Outcome { text, code: u8::from(compared.same != compared.all) })
}
