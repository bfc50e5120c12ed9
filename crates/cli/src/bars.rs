//! The head's time as bars of text.

use sim::HeadTime;

/// The length of a full bar in characters.
const BAR_CHARACTERS: f64 = 40.0;

/// Returns the parts of the head's time with their names in the output, in the order in which an access goes through them.
pub(crate) fn parts(head: &HeadTime) -> [(&'static str, f64); 6] {
    [
        ("seek", head.seek),
        ("rotation", head.rotation),
        ("transfer", head.transfer),
        ("free_transfer", head.free_transfer),
        ("extra_seek", head.extra_seek),
        ("idle", head.idle),
    ]
}

/// Returns a share as a bar, to the nearest half character.
pub(crate) fn bar(share: f64) -> String {
    let halves = (share.clamp(0.0, 1.0) * BAR_CHARACTERS * 2.0).round() as usize;
    let mut bar = "█".repeat(halves / 2);
    if halves % 2 == 1 {
        bar.push('▌');
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_its_share() {
        assert_eq!(bar(0.0), "");
        assert_eq!(bar(1.0).chars().count(), 40);
        assert_eq!(bar(0.0125), "▌");
        assert_eq!(bar(f64::NAN).chars().count(), 0);
        assert_eq!(bar(7.0).chars().count(), 40);
    }
}
