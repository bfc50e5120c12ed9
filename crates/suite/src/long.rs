//! The list of the tests that only the long tier runs.

/// A test that the short tier leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Long {
    /// The test's name, as [`Test`](crate::Test) has it.
    pub name: String,
    /// The reason why it is not in the short tier.
    pub reason: String,
}

/// An error in the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LongError {
    /// An entry has no reason.
    #[error(
        "crates/suite/long.txt, line {0}: no reason follows the name; write one behind it, after a space"
    )]
    Reason(usize),
    /// A test has been listed before.
    #[error("crates/suite/long.txt, line {0}: {1} is listed twice; delete one of the two")]
    Twice(usize, String),
    /// No test has this name.
    #[error(
        "crates/suite/long.txt: there is no test {0}; correct the name, or delete the line if the test is gone"
    )]
    Gone(String),
}

impl Long {
    /// Reads the list: a name and a reason a line; lines that begin with `#` are comments.
    ///
    /// # Errors
    /// If an entry has no reason, or is there twice.
    pub fn list(text: &str) -> Result<Vec<Self>, LongError> {
        let mut list: Vec<Self> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, reason) = line.split_once(char::is_whitespace).ok_or(LongError::Reason(at + 1))?;
            if list.iter().any(|known| known.name == name) {
                return Err(LongError::Twice(at + 1, name.into()));
            }
            list.push(Self { name: name.into(), reason: reason.trim().into() });
        }
        Ok(list)
    }

    /// Holds each entry against the tests that there are.
    ///
    /// # Errors
    /// If one of them is not there.
    pub fn exist<'a>(list: &[Self], tests: impl Iterator<Item = &'a str> + Clone) -> Result<(), LongError> {
        match list.iter().find(|long| !tests.clone().any(|test| test == long.name)) {
            Some(gone) => Err(LongError::Gone(gone.name.clone())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_a_name_and_a_reason() {
        let list = Long::list("# comment\n\nsim/tests::a::b  its promise holds at full size only\n").unwrap();
        let expected =
            Long { name: "sim/tests::a::b".into(), reason: "its promise holds at full size only".into() };
        assert_eq!(list, [expected]);
        assert_eq!(Long::list("a because\nb"), Err(LongError::Reason(2)));
        assert_eq!(Long::list("a because\na again"), Err(LongError::Twice(2, "a".into())));
    }

    #[test]
    fn an_entry_whose_test_is_gone_is_an_error() {
        let list = Long::list("a because\nb because").unwrap();
        assert_eq!(Long::exist(&list, ["b", "a", "c"].into_iter()), Ok(()));
        assert_eq!(Long::exist(&list, ["a"].into_iter()), Err(LongError::Gone("b".into())));
    }
}
