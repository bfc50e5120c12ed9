//! The cylinders that the foreground's requests access.

use model::DriveModel;
use units::Lbn;

/// Accesses of the foreground by cylinder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Visits {
    by_cylinder: Vec<u64>,
}

impl Visits {
    /// Counts an access.
    pub fn note(&mut self, drive: &DriveModel, lbn: Lbn) {
        let Some(sector) = drive.layout().locate(lbn) else { return };
        let at = drive.layout().track(sector.track).cylinder.get() as usize;
        if self.by_cylinder.len() <= at {
            self.by_cylinder.resize(at + 1, 0);
        }
        self.by_cylinder[at] += 1;
    }

    /// Returns the percentage of cylinders that have nine tenths of the accesses.
    pub fn percent_with_most(&self, drive: &DriveModel) -> f64 {
        let mut counts = self.by_cylinder.clone();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let goal = counts.iter().sum::<u64>() * 9 / 10;
        let mut sum = 0;
        let enough = counts.iter().take_while(|count| {
            let goes_on = sum < goal;
            sum += **count;
            goes_on
        });
        enough.count() as f64 * 100.0 / f64::from(drive.layout().cylinders().max(1))
    }
}
