//! Typed access to the fields of a block of a parameter file; every error names the place.

use super::source::{Fault, Scalar, printable, refuse};
use super::syntax::{Block, Value};

/// The largest whole number accepted, because the integers of TOML, the format of a profile file, have 63 bits.
const WHOLE_MAX: i128 = i64::MAX as i128;

impl Block {
    /// Returns the last field of this name. As in DiskSim, a later field overrides an earlier one.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.iter().rev().find(|field| field.key.eq_ignore_ascii_case(key)).map(|field| &field.value)
    }

    pub fn require(&self, key: &str) -> Result<&Value, Fault> {
        self.get(key).ok_or_else(|| Fault::Missing {
            at: self.at,
            block: printable(if self.name.is_empty() { &self.kind } else { &self.name }),
            key: key.into(),
        })
    }

    /// Returns a whole number from `least` to `most`.
    pub fn whole(&self, key: &str, least: i64, most: u64) -> Result<u64, Fault> {
        self.require(key)?.whole(key, least, most)
    }

    pub fn whole_or(&self, key: &str, least: i64, most: u64, default: u64) -> Result<u64, Fault> {
        self.get(key).map_or(Ok(default), |value| value.whole(key, least, most))
    }

    pub fn number_or(&self, key: &str, default: f64) -> Result<f64, Fault> {
        self.get(key).map_or(Ok(default), |value| value.number(key))
    }

    /// Returns the items of a list; none if the field is missing.
    pub fn list(&self, key: &str) -> Result<&[Value], Fault> {
        self.get(key).map_or(Ok(&[]), |value| value.list(key))
    }
}

impl Value {
    pub fn scalar(&self, what: &str) -> Result<&Scalar, Fault> {
        match self {
            Self::Scalar(scalar) => Ok(scalar),
            Self::List { .. } => Err(refuse(self.at(), format!("`{what}` is a list"), "give one value")),
            Self::Block(_) => Err(refuse(self.at(), format!("`{what}` is a block"), "give one value")),
        }
    }

    pub fn list(&self, what: &str) -> Result<&[Value], Fault> {
        match self {
            Self::List { items, .. } => Ok(items),
            _ => Err(refuse(self.at(), format!("`{what}` is not a list"), "write `[ item, ... ]`")),
        }
    }

    pub fn block(&self, what: &str) -> Result<&Block, Fault> {
        match self {
            Self::Block(block) => Ok(block),
            _ => Err(refuse(
                self.at(),
                format!("`{what}` is not a block"),
                "write `TYPE { ... }`, or `source FILE` with a file that holds one",
            )),
        }
    }

    pub fn number(&self, what: &str) -> Result<f64, Fault> {
        let scalar = self.scalar(what)?;
        match scalar.text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(refuse(
                scalar.at,
                format!("`{what}` is `{}`, which is no number", printable(&scalar.text)),
                "write a decimal number",
            )),
        }
    }

    /// Returns a whole number from `least` to `most`; `63.0` counts as whole.
    pub fn whole(&self, what: &str, least: i64, most: u64) -> Result<u64, Fault> {
        let number = self.integer(what)?;
        if number < i128::from(least) || number > i128::from(most).min(WHOLE_MAX) {
            return Err(refuse(
                self.at(),
                format!("`{what}` is {number}"),
                &format!("give a whole number from {least} to {}", i128::from(most).min(WHOLE_MAX)),
            ));
        }
        Ok(number.max(0) as u64)
    }

    /// Returns any whole number.
    pub fn integer(&self, what: &str) -> Result<i128, Fault> {
        let scalar = self.scalar(what)?;
        if let Ok(number) = scalar.text.parse::<i64>() {
            return Ok(number.into());
        }
        if let Ok(number) = scalar.text.parse::<u64>() {
            return Ok(number.into());
        }
        let number = self.number(what)?;
        // Beyond 2^53 several whole numbers have the same floating-point value.
        if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 {
            return Ok(number as i128);
        }
        Err(refuse(
            scalar.at,
            format!("`{what}` is `{}`, which is not a whole number", printable(&scalar.text)),
            "write a whole number",
        ))
    }
}

/// Collects the items of a list and of its inner lists, because DiskSim's tables are written with and without brackets
/// around each row.
pub(super) fn flattened<'v>(items: &'v [Value], into: &mut Vec<&'v Value>) {
    for item in items {
        match item {
            // The parser bounds the depth of this recursion.
            Value::List { items, .. } => flattened(items, into),
            other => into.push(other),
        }
    }
}
