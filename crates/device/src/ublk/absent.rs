//! The stand-in without the feature: the same interface, always failing.

use super::{UblkError, UblkPlan};
use crate::kernel::KernelQueue;
use std::convert::Infallible;
use std::path::Path;

/// A block device of this machine's kernel, in a build without support for it.
#[derive(Debug)]
pub struct Ublk(Infallible);

impl Ublk {
    /// Fails: there is no support.
    ///
    /// # Errors
    /// [`UblkError::NotBuilt`], always.
    pub fn open(plan: UblkPlan) -> Result<Self, UblkError> {
        let _ = plan;
        Err(UblkError::NotBuilt)
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// Serves its requests.
    ///
    /// # Errors
    /// None: there is no such device.
    pub fn serve<R>(&self, host: impl FnOnce(&mut dyn KernelQueue) -> R) -> Result<R, UblkError> {
        let _ = host;
        match self.0 {}
    }

    /// Makes the kernel show it.
    pub fn start(&self, started: impl FnOnce(Result<(), UblkError>) + Send + 'static) {
        let _ = started;
        match self.0 {}
    }

    /// Makes the kernel remove it.
    pub fn stop(&self) {
        match self.0 {}
    }

    /// Closes it.
    ///
    /// # Errors
    /// None: there is no such device.
    pub fn close(self) -> Result<(), UblkError> {
        match self.0 {}
    }
}
