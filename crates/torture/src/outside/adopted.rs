//! Gives the core another model of the drive while the history runs.

use super::Front;
use crate::failure::{Broken, Check};
use crate::outer::{Knowledge, Outer};
use scheduler::{Adoption, HostCall, Input};
use std::sync::Arc;

impl Front {
    /// Gives the core another model of the drive, and the configuration that belongs to it.
    pub(super) fn adopt(&mut self, knowledge: Knowledge) -> Result<(), Broken> {
        let outer = Outer { knowledge, ..self.setup.outside };
        let known = outer.known(self.boxed.profile(), &self.boxed.model()).map_err(|e| (Check::Panic, e))?;
        let config = self.setup.config().with_outside(outer.config(self.boxed.overheads));
        let adoption = Box::new(Adoption { drive: Arc::clone(&known), config });
        let reported = self.core.input(Input::Host(HostCall::Adopt(adoption)));
        reported.map_err(|e| (Check::Refusal, format!("a model of the same drive is refused: {e}")))?;
        (self.known, self.config) = (known, config);
        self.counts.adopted += 1;
        self.most_at_drive = self.most_at_drive.max(outer.most_at_drive());
        self.drain()
    }
}
