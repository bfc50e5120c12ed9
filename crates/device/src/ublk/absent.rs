//! The stand-in for builds without the feature `ublk`: the same interface, which always fails.

use super::{UblkError, UblkPlan};
use crate::kernel::KernelQueue;
use std::convert::Infallible;
use std::path::Path;

/// A block device of this machine's kernel, in a build without support for it.
#[derive(Debug)]
pub struct Ublk(Infallible);

impl Ublk {
    /// Fails, because this build has no ublk.
    ///
    /// # Errors
    /// [`UblkError::NotBuilt`], always.
    pub fn open(plan: UblkPlan) -> Result<Self, UblkError> {
        let _ = plan;
        Err(UblkError::NotBuilt)
    }

    /// Returns the device's path.
    pub fn path(&self) -> &Path {
        match self.0 {}
    }

    /// Serves the device's requests.
    ///
    /// # Errors
    /// None, because no value of this type exists.
    pub fn serve<R>(&self, host: impl FnOnce(&mut dyn KernelQueue) -> R) -> Result<R, UblkError> {
        let _ = host;
        match self.0 {}
    }

    /// Makes the kernel show the device.
    pub fn start(&self, started: impl FnOnce(Result<(), UblkError>) + Send + 'static) {
        let _ = started;
        match self.0 {}
    }

    /// Makes the kernel remove the device.
    pub fn stop(&self) {
        match self.0 {}
    }

    /// Closes the device.
    ///
    /// # Errors
    /// None, because no value of this type exists.
    pub fn close(self) -> Result<(), UblkError> {
        match self.0 {}
    }
}
