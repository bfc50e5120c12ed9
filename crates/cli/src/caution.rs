//! Why gaps are left alone, in words.

/// By the name that a daemon and a simulation give it.
pub(crate) fn left_alone(caution: &str) -> Option<&'static str> {
    match caution {
        "unsynchronised" => Some("where the platters are is not known now"),
        "mistrust" => Some("the drive does not do what its profile says, or has yet to show that it does"),
        "harm" => Some("they have cost the foreground as much as they may, with what may come of them yet"),
        "unknown" => Some("nothing is known of the drive but its size"),
        _ => None,
    }
}

/// What to do about a drive that is mistrusted.
pub(crate) const MISTRUSTED: &str = "it has for long not done what its profile says; probe it again";

#[cfg(test)]
mod tests {
    use super::*;
    use scheduler::Caution;

    #[test]
    fn each_is_in_words() {
        assert!(Caution::ALL.iter().all(|caution| left_alone(caution.name()).is_some()));
    }
}
