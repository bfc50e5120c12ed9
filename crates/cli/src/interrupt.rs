//! Ctrl-C and SIGTERM: whether one of them came, and the calls that they cause.

use std::sync::atomic::{AtomicBool, Ordering};

static CAME: AtomicBool = AtomicBool::new(false);

/// Whether the process belongs to a program that calls the command as a library, and handles signals itself.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Leaves signals to the calling program from here on.
pub(crate) fn leave_to_caller() {
    CALLED.store(true, Ordering::SeqCst);
}

/// Returns whether the calling program handles signals.
pub(crate) fn is_left_to_caller() -> bool {
    CALLED.load(Ordering::SeqCst)
}

/// Sets whether [`came`] returns true; for a calling program that has received the signal itself.
pub(crate) fn set(came: bool) {
    CAME.store(came, Ordering::SeqCst);
}

/// Catches Ctrl-C (and SIGTERM), so that a command can end at a point from which it can be continued. A second signal
/// calls `last_words` and ends at once. If no handler can be set, Ctrl-C has its default effect.
pub(crate) fn watch(last_words: impl Fn() + Send + 'static) {
    watch_and(|| {}, last_words);
}

/// Catches Ctrl-C for a command that waits for another event: the first signal calls `first`.
pub(crate) fn watch_and(first: impl Fn() + Send + 'static, last_words: impl Fn() + Send + 'static) {
    if is_left_to_caller() {
        return;
    }
    let _ = ctrlc::set_handler(move || {
        if CAME.swap(true, Ordering::SeqCst) {
            last_words();
            std::process::exit(1);
        }
        first();
    });
}

/// Returns whether Ctrl-C (or SIGTERM) came.
pub(crate) fn came() -> bool {
    CAME.load(Ordering::SeqCst)
}
