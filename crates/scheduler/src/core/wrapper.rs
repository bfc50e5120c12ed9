//! The calls that both cores have.

use super::{Core, SubmitError};
use crate::foreground::Request;
use crate::sessions::Sessions;
use core::ops::Deref;
use units::Instant;

/// The calls that both cores have, for code that works with either [`InDrive`](crate::InDrive) or
/// [`OutsideDrive`](crate::OutsideDrive): the session calls, the queries of the engine, and the methods below. Polls are not
/// among them, because the two cores return different work.
///
/// ```
/// use freeblock_scheduler::{AnyCore, Priority};
/// fn open_two(core: &mut dyn AnyCore) -> bool {
///     core.open(Priority::default()).is_ok() && core.open(Priority::default()).is_ok() && core.promoted_pending() == 0
/// }
/// ```
/// The engine of a core cannot be replaced by another:
/// ```compile_fail
/// use freeblock_scheduler::{Core, InDrive};
/// fn swap(one: &mut InDrive, other: &mut InDrive) {
///     std::mem::swap::<Core>(one, other);
/// }
/// ```
pub trait AnyCore: Sessions + Deref<Target = Core> {
    /// Accepts a foreground request.
    ///
    /// # Errors
    /// The request is empty, ends past the drive's end, or finds the pool full; an error changes nothing.
    fn submit(&mut self, now: Instant, request: Request) -> Result<(), SubmitError>;

    /// Returns the number of waiting foreground requests, promoted ones included, without those under way.
    fn pending(&self) -> usize;

    /// Returns the instant of the next poll if no event occurs before.
    fn wake_at(&self) -> Option<Instant>;
}

/// Implements the calls that both cores have, by means of a core's own `admit` (which adds a checked request), `ended`, `host`
/// and `poll_with`. The engine is only lent for reading, so that no host can swap the engines of two cores.
macro_rules! wraps_engine {
    ($core:ident, $work:ident, $end:ident, $host:ident) => {
        impl core::ops::Deref for $core {
            type Target = Core;

            fn deref(&self) -> &Core {
                &self.core
            }
        }

        impl crate::sessions::Sessions for $core {
            fn call(
                &mut self,
                call: crate::sessions::SessionCall,
            ) -> Result<u64, crate::sessions::SessionError> {
                self.core.call(call)
            }

            fn to_come(&self, session: units::SessionId) -> Result<u64, crate::sessions::SessionError> {
                self.core.undelivered(session).ok_or(crate::sessions::SessionError::NoSession(session))
            }
        }

        impl crate::core::AnyCore for $core {
            fn submit(&mut self, now: Instant, request: Request) -> Result<(), SubmitError> {
                self.submit(now, request)
            }

            fn pending(&self) -> usize {
                self.pending()
            }

            fn wake_at(&self) -> Option<Instant> {
                self.wake_at()
            }
        }

        impl $core {
            /// Takes an input. Returns the result of [`Sessions::call`](crate::Sessions::call) or of the host's call; 0 for an input
            /// that is no call.
            ///
            /// # Errors
            /// The reason why the request or the call is refused. The end of work is never refused.
            pub fn input(&mut self, input: Input<$end<'_>, $host>) -> Result<u64, Refused> {
                match input {
                    Input::Submit { at, request } => self.submit(at, request)?,
                    Input::Ended { at, end } => self.ended(at, end),
                    Input::Call(call) => return Ok(self.core.call(call)?),
                    Input::Host(call) => return self.host(call),
                }
                Ok(0)
            }

            /// Accepts a foreground request.
            ///
            /// # Errors
            /// The request is empty, ends past the drive's end, or finds the pool full; an error changes nothing.
            pub fn submit(&mut self, now: Instant, request: Request) -> Result<(), SubmitError> {
                let pending = self.core.check(now, request)?;
                self.admit(now, pending);
                Ok(())
            }

            /// Returns the next output, or `None` until the next input. A host with background writes uses
            /// [`poll_with`](Self::poll_with).
            pub fn poll(&mut self, now: Instant) -> Option<Output<$work>> {
                self.poll_with(now, &mut crate::background::Ready)
            }

            /// Sets a policy of the host's own in place of [`Config::policy`], from the next choice on. A call sets it, because the
            /// configuration is plain data and the policy is an object.
            pub fn set_policy(&mut self, policy: alloc::boxed::Box<dyn crate::policy::ForeignPolicy>) {
                self.core.policy = crate::policy::AnyPolicy::Foreign(policy);
            }

            /// Sets the mimic that SMTF queries, and reports each foreground request to it from here on, under any policy.
            /// Returns the previous mimic. Without a mimic, SMTF chooses like its base policy. A host may set and remove a mimic
            /// while the core works.
            pub fn set_mimic(
                &mut self,
                mimic: Option<alloc::boxed::Box<dyn crate::predictor::Mimic>>,
            ) -> Option<alloc::boxed::Box<dyn crate::predictor::Mimic>> {
                core::mem::replace(&mut self.core.watch.mimic, mimic)
            }
        }
    };
}
pub(super) use wraps_engine;
