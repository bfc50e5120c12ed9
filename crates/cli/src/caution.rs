//! The reasons why gaps stay unused or a policy does not do what its name says, in words.

use scheduler::policy::PolicyName;

/// Returns the words for a reason that a daemon or a simulation reports by this name.
pub(crate) fn unused_because(caution: &str) -> Option<&'static str> {
    match caution {
        "unsynchronised" => Some("the platter's angle is not known yet"),
        "mistrust" => {
            Some("the drive does not behave as its profile says, or has not shown yet that it does")
        }
        "harm" => Some("the harm budget is spent"),
        "unknown" => Some("the drive has no profile"),
        "buffered" => Some("most reads of the clients come from the drive's buffer"),
        _ => None,
    }
}

/// The message about a drive whose profile the scheduler does not trust.
pub(crate) const MISTRUSTED: &str = "the drive has not behaved as its profile says for at least half a minute: usual for a drive that caches writes; otherwise probe the drive again";

/// Returns a sentence about the behaviour of a policy that needs positions if none are known.
pub(crate) fn without_positions(policy: PolicyName) -> Option<String> {
    matches!(policy, PolicyName::Sptf | PolicyName::Asptf(_) | PolicyName::SptfSw(_)).then(|| {
        format!(
            "without a profile {policy} knows no positions and uses LBN distance, as sstf does; smtf learns the times"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler::Caution;

    #[test]
    fn each_is_in_words() {
        assert!(Caution::ALL.iter().all(|caution| unused_because(caution.name()).is_some()));
    }
}
