//! A block whose bytes are requested in two parts, of which the second is refused.

use freeblock_sim::{Platters, Volume};
use model::{DriveModel, Profile};
use scheduler::{Application, Config, IdleTime, Parameter, Priority, Record, Sessions, Wanted};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};

/// An application that has the bytes before an LBN, and the bytes after it only after some refusals.
struct Halves {
    at: Lbn,
    refusals: u32,
    granted: Vec<LbnRange>,
    done: u32,
}

impl Application for Halves {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {
        self.done += 1;
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        if wanted.range.start() >= self.at && self.refusals > 0 {
            self.refusals -= 1;
            return false;
        }
        self.granted.push(wanted.range);
        into.fill(7);
        true
    }
}

/// The sector between the two parts of the block is slipped, so that the parts lie on one track but are two accesses.
#[test]
fn given_bytes_are_written_although_the_rest_of_the_block_is_refused() {
    let toml = include_str!("../../../../model/tests/data/tiny.toml");
    let drive = Arc::new(DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap());
    let config = Config::default().with_idle(Some(IdleTime::default()));
    let mut volume = Volume::new(Arc::clone(&drive), config, Platters::blank(&drive)).unwrap();
    let block = LbnRange::new(Lbn::ZERO, Sectors::new(12));
    let layout = drive.layout();
    let pieces: Vec<_> = layout.pieces(block).map(|piece| (piece.track, piece.lbn)).collect();
    assert_eq!((pieces.len(), pieces[0].0), (2, pieces[1].0), "two parts on one track: {pieces:?}");
    let app = volume.host(Halves { at: pieces[1].1, refusals: 3, granted: Vec::new(), done: 0 });
    volume
        .call(app, |_, sessions| {
            let session = sessions.open(Priority::default()).unwrap();
            sessions.write(session, block, block.len(), Parameter::default()).unwrap();
        })
        .unwrap();
    volume.run_for(Duration::from_secs(5)).unwrap();
    let seen = volume.app(app).unwrap();
    assert_eq!((seen.refusals, seen.done), (0, 1), "{:?}", seen.granted);
    let mut bytes = vec![0; 12 * 512];
    volume.platters().medium().read(block, &mut bytes).unwrap();
    assert!(bytes.iter().all(|byte| *byte == 7));
}
