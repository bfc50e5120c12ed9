//! The selection of experiments by the names that a user gives.

use crate::Experiment;
use model::names;
use thiserror::Error;

/// A name that fits no experiment.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no experiment is called `{name}`; {}", advice(.nearest))]
pub struct UnknownExperiment {
    /// The name asked for.
    pub name: String,
    /// Ids that resemble the name, the nearest first; may be empty.
    pub nearest: Vec<&'static str>,
}

fn advice(nearest: &[&str]) -> String {
    if nearest.is_empty() {
        return "`freeblock lab list` shows all".to_owned();
    }
    format!("did you mean {}? `freeblock lab list` shows all", nearest.join(" or "))
}

/// Returns the experiments of `all` that the names mean, each once, in the order of `all`; without names all of them. A
/// name is an experiment's id, or the id of one of its claims, or the beginning of either.
///
/// # Errors
/// [`UnknownExperiment`] with the ids that come nearest.
pub fn select(
    all: &'static [Experiment],
    names: &[impl AsRef<str>],
) -> Result<Vec<&'static Experiment>, UnknownExperiment> {
    let mut chosen = vec![names.is_empty(); all.len()];
    for name in names.iter().map(AsRef::as_ref) {
        let exactly = |e: &Experiment| e.id == name || e.claims.contains(&name);
        let begins = |e: &Experiment| {
            !name.is_empty()
                && (e.id.starts_with(name) || e.claims.iter().any(|claim| claim.starts_with(name)))
        };
        let is_exact = all.iter().any(exactly);
        let mut found = false;
        for (mark, experiment) in chosen.iter_mut().zip(all) {
            let meant = if is_exact { exactly(experiment) } else { begins(experiment) };
            *mark |= meant;
            found |= meant;
        }
        if !found {
            return Err(UnknownExperiment {
                name: names::shortened(name),
                nearest: names::nearest(name, all.iter().map(|experiment| experiment.id)),
            });
        }
    }
    Ok(all.iter().zip(chosen).filter(|(_, chosen)| *chosen).map(|(experiment, _)| experiment).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Outcome, Paper};

    const fn experiment(id: &'static str, claims: &'static [&'static str]) -> Experiment {
        Experiment {
            id,
            paper: Paper::Osdi00,
            reproduces: "",
            title: "",
            set_up: "",
            claims,
            timed: false,
            run: |_| Ok(Outcome::default()),
        }
    }

    static ALL: &[Experiment] = &[
        experiment("osdi00-fig1", &[]),
        experiment("osdi00-fig10", &["osdi00-fig10"]),
        experiment("osdi00-fig6", &["osdi00-fig6a", "osdi00-fig6b"]),
        experiment("fast02-fig7", &["fast02-fig7a"]),
    ];

    fn ids(names: &[&str]) -> Vec<&'static str> {
        select(ALL, names).unwrap().iter().map(|e| e.id).collect()
    }

    #[test]
    fn names_are_ids_or_their_beginnings_or_claims() {
        assert_eq!(ids(&[]).len(), 4);
        assert_eq!(ids(&["osdi00-fig1"]), ["osdi00-fig1"]);
        assert_eq!(ids(&["fast"]), ["fast02-fig7"]);
        assert_eq!(ids(&["osdi00-fig6b"]), ["osdi00-fig6"]);
        assert_eq!(ids(&["fast02", "osdi00-fig1", "osdi00"]).len(), 4);
    }

    #[test]
    fn errors_for_unknown_names_give_the_nearest() {
        let unknown = |name: &str| select(ALL, &[name]).unwrap_err();
        assert_eq!(unknown("osdi00-fig11").nearest[0], "osdi00-fig1");
        assert_eq!(unknown("fig7").nearest, ["fast02-fig7"]);
        assert!(unknown("").nearest.is_empty() && unknown("atc03").to_string().contains("lab list"));
        assert!(!unknown("\u{1b}[31m").to_string().contains('\u{1b}'));
    }
}
