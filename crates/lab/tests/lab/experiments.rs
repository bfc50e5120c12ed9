//! Properties of all experiments.

use freeblock_lab::experiments;

#[test]
fn ids_and_claims_are_unlike_each_other() {
    let mut ids: Vec<&str> = experiments().iter().map(|e| e.id).collect();
    let mut claims: Vec<&str> = experiments().iter().flat_map(|e| e.claims).copied().collect();
    for names in [&mut ids, &mut claims] {
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all, "{names:?}");
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!(ids.iter().chain(&claims).all(|name| name.chars().all(fits)));
}

#[test]
fn experiments_describe_themselves() {
    for e in experiments() {
        assert!(!e.title.is_empty() && !e.reproduces.is_empty() && e.set_up.ends_with('.'), "{}", e.id);
        assert!(!e.claims.is_empty(), "{} claims nothing", e.id);
    }
}

#[test]
fn every_row_of_the_papers_claims_is_answered_once() {
    let Some(path) = testing::shared("claims.md") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let wanted: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" |").next())
        .filter(|id| ["osdi00-", "fast02-", "fast04-", "atc03-"].iter().any(|paper| id.starts_with(paper)))
        .collect();
    assert!(wanted.len() > 30, "{wanted:?}");
    let answers =
        |id: &str| experiments().iter().flat_map(|e| e.claims).filter(|claim| **claim == id).count();
    let missing: Vec<&&str> = wanted.iter().filter(|id| answers(id) != 1).collect();
    assert!(missing.is_empty(), "not answered by exactly one experiment: {missing:?}");
}
