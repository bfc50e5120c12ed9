//! Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};

static CAME: AtomicBool = AtomicBool::new(false);

/// Notes Ctrl-C (and SIGTERM), so that a command can end where it can be gone on with. A second one says `last_words`
/// and ends at once. Where no handler can be set, Ctrl-C does what it always does.
pub(crate) fn watch(last_words: impl Fn() + Send + 'static) {
    let _ = ctrlc::set_handler(move || {
        if CAME.swap(true, Ordering::SeqCst) {
            last_words();
            std::process::exit(1);
        }
    });
}

/// Whether it came.
pub(crate) fn came() -> bool {
    CAME.load(Ordering::SeqCst)
}
