//! `freeblock lab check`.

use super::args::LabArgs;
use super::known::Known;
use super::{results, show};
use crate::Outcome;
use crate::output::Console;
use crate::problem::Problem;
use lab::{Band, Claim, Spread};
use serde::Serialize;
use std::path::Path;

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
struct LabCheckJson<'c> {
    claims: Vec<ClaimEntry<'c>>,
}

#[derive(Serialize)]
struct ClaimEntry<'c> {
    id: &'c str,
    paper: &'c str,
    ours: String,
    band: String,
    holds: bool,
    note: &'c str,
    measures: Vec<Value<'c>>,
}

#[derive(Serialize)]
struct Value<'c> {
    what: &'c str,
    ours: Spread,
    unit: &'c str,
    band: Band,
    holds: bool,
}

/// Returns exit code 1 if a claim does not hold; with a list of known failures, if the failing measures are not
/// those of the list.
pub(crate) fn execute(
    args: &LabArgs,
    kept: Option<&Path>,
    known: Option<&Path>,
    json: bool,
    console: &Console,
) -> Result<Outcome, Problem> {
    let known = known.map(Known::read).transpose()?;
    let experiments = results::chosen(args)?;
    let findings = results::obtain(args, &experiments, results::Wanted::Claims, kept, console, |_| Ok(()))?;
    let claims: Vec<&Claim> = findings.iter().flat_map(|f| &f.saved.outcome.claims).collect();
    let mut outcome = judged(&claims, json)?;
    if let Some(known) = known {
        let unlike: Vec<String> = claims.iter().flat_map(|claim| known.unlike(claim)).collect();
        for line in &unlike {
            console.note(&format!("error: {line}"));
        }
        outcome.code = u8::from(!unlike.is_empty());
    }
    Ok(outcome)
}

/// Returns the table or the JSON of these claims; the exit code is 1 if one does not hold.
fn judged(claims: &[&Claim], json: bool) -> Result<Outcome, Problem> {
    let holding = claims.iter().filter(|claim| claim.holds()).count();
    let text = if json {
        crate::drive::json(&LabCheckJson { claims: claims.iter().map(|claim| entry(claim)).collect() })?
    } else {
        let (table, reasons) = (show::claims(claims.iter().copied()), show::reasons(claims.iter().copied()));
        format!("{table}{reasons}\n{}\n", tally(holding, claims.len()))
    };
    Ok(Outcome { text, code: u8::from(holding < claims.len()) })
}

/// Returns the number of claims that hold, in words.
pub(crate) fn tally(holding: usize, all: usize) -> String {
    format!("{holding} of {all} {}", if all == 1 { "claim holds" } else { "claims hold" })
}

fn entry(claim: &Claim) -> ClaimEntry<'_> {
    ClaimEntry {
        id: &claim.id,
        paper: &claim.paper,
        ours: claim.ours(),
        band: claim.band(),
        holds: claim.holds(),
        note: &claim.note,
        measures: claim
            .measures
            .iter()
            .map(|m| Value { what: &m.what, ours: m.ours, unit: &m.unit, band: m.band, holds: m.holds() })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding() -> Claim {
        Claim::new("x-fig1", "half").measure("", 0.5, "", Band::Within(0.4, 0.6))
    }

    fn missing() -> Claim {
        Claim::new("x-fig2", "twice")
            .measure("", 1.5, " MB/s", Band::AtLeast(2.0))
            .note("the disk is another")
    }

    #[test]
    fn all_claims_that_hold_are_a_success() {
        let outcome = judged(&[&holding()], false).unwrap();
        assert_eq!(outcome.code, 0);
        assert!(
            outcome.text.ends_with("1 of 1 claim holds\n") && !outcome.text.contains("does not"),
            "{}",
            outcome.text
        );
        assert_eq!(judged(&[], false).unwrap().code, 0);
    }

    #[test]
    fn a_claim_that_does_not_hold_is_a_failure_with_its_reason() {
        for json in [false, true] {
            let outcome = judged(&[&holding(), &missing()], json).unwrap();
            assert_eq!(outcome.code, 1);
            assert!(outcome.text.contains("the disk is another"), "{}", outcome.text);
        }
        let text = judged(&[&missing()], false).unwrap().text;
        assert!(text.contains("x-fig2 does not hold: the disk is another"), "{text}");
    }

    #[test]
    fn a_claim_of_which_nothing_was_measured_is_a_failure() {
        assert_eq!(judged(&[&Claim::new("x", "y")], false).unwrap().code, 1);
    }

    #[test]
    fn scripts_find_the_agreed_keys() {
        let text = judged(&[&missing()], true).unwrap().text;
        insta::assert_snapshot!(text, @r#"
        {
          "claims": [
            {
              "id": "x-fig2",
              "paper": "twice",
              "ours": "1.50 MB/s",
              "band": ">= 2 MB/s",
              "holds": false,
              "note": "the disk is another",
              "measures": [
                {
                  "what": "",
                  "ours": {
                    "mean": 1.5,
                    "min": 1.5,
                    "max": 1.5,
                    "runs": 1
                  },
                  "unit": " MB/s",
                  "band": {
                    "at_least": 2.0
                  },
                  "holds": false
                }
              ]
            }
          ]
        }
        "#);
    }
}
