//! The lists of tests that run in a special way: in the long tier only, beside tests that compute, or alone.

/// A test in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The test's name, as [`Test`](crate::Test) has it.
    pub name: String,
    /// The reason why the test is in the list.
    pub reason: String,
}

/// An error in a list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListedError {
    /// An entry has no reason.
    #[error("line {0} has a name without a reason; write the reason after the name and a space")]
    Reason(usize),
    /// A test has been listed before.
    #[error("line {0}: {1} is listed twice; delete one of the two")]
    Twice(usize, String),
    /// No test has this name.
    #[error("there is no test {0}; correct the name, or delete the line if the test is gone")]
    Gone(String),
}

impl Listed {
    /// Reads a list: a name and a reason on each line; lines that begin with `#` are comments.
    ///
    /// # Errors
    /// If an entry has no reason, or a name is listed twice.
    pub fn list(text: &str) -> Result<Vec<Self>, ListedError> {
        let mut list: Vec<Self> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line.split_once(char::is_whitespace).ok_or(ListedError::Reason(at + 1))?;
            if list.iter().any(|known| known.name == name) {
                return Err(ListedError::Twice(at + 1, name.into()));
            }
            list.push(Self { name: name.into(), reason: reason.trim().into() });
        }
        Ok(list)
    }

    /// Checks that each entry names an existing test.
    ///
    /// # Errors
    /// If no test has the name of an entry.
    pub fn exist<'a>(list: &[Self], tests: impl Iterator<Item = &'a str> + Clone) -> Result<(), ListedError> {
        match list.iter().find(|listed| !tests.clone().any(|test| test == listed.name)) {
            Some(gone) => Err(ListedError::Gone(gone.name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_and_a_reason() {
        let list =
            Listed::list("# comment\n\nsim/tests::a::b  its promise holds at full size only\n").unwrap();
        let expected =
            Listed { name: "sim/tests::a::b".into(), reason: "its promise holds at full size only".into() };
        assert_eq!(list, [expected]);
        assert_eq!(Listed::list("a because\nb"), Err(ListedError::Reason(2)));
        assert_eq!(Listed::list("a because\na again"), Err(ListedError::Twice(2, "a".into())));
    }

    #[test]
    fn an_entry_whose_test_is_gone_is_an_error() {
        let list = Listed::list("a because\nb because").unwrap();
        assert_eq!(Listed::exist(&list, ["b", "a", "c"].into_iter()), Ok(()));
        assert_eq!(Listed::exist(&list, ["a"].into_iter()), Err(ListedError::Gone("b".into())));
    }
}
