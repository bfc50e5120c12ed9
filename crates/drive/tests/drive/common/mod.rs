//! Reads the traces of real drives and DiskSim's answers, if these files are available.

#![allow(dead_code)]

use freeblock_drive::ValidateRecord;
use model::{Profile, disksim};
use units::{Duration, Lbn, LbnRange, Op, Sectors};

/// Returns the profile and the trace of a drive. Prints a message and returns `None` if the files are not available.
pub fn measured(name: &str) -> Option<(Profile, Vec<ValidateRecord>)> {
    let parameters = testing::shared(&format!("drives/disksim/{name}.parv"))?;
    let text = std::fs::read_to_string(testing::shared(&format!("drives/traces/{name}.trace"))?).unwrap();
    let profile = disksim::import(&parameters).unwrap().profile;
    let ms = |us: &str| Duration::from_millis_f64(us.parse::<f64>().unwrap() / 1000.0).unwrap();
    let records = text
        .lines()
        .map(|line| {
            let word: Vec<&str> = line.split_whitespace().collect();
            ValidateRecord {
                op: if word[0] == "R" { Op::Read } else { Op::Write },
                range: LbnRange::new(
                    Lbn::new(word[2].parse().unwrap()),
                    Sectors::new(word[3].parse().unwrap()),
                ),
                service: ms(word[4]),
                think: ms(word[5]),
            }
        })
        .collect();
    Some((profile, records))
}

pub fn disksim_answers(name: &str) -> Vec<f64> {
    let text =
        std::fs::read_to_string(testing::shared(&format!("drives/oracle/{name}.csv")).unwrap()).unwrap();
    text.lines().skip(1).map(|line| line.split(',').nth(6).unwrap().parse().unwrap()).collect()
}

/// Returns the word that the trace has for each request. In the trace of the C2247A it tells how often the drive released the
/// bus: "Hit", "Miss", "Doub" or "Trip". Other traces have only "Hit".
pub fn noted(name: &str) -> Vec<String> {
    let text =
        std::fs::read_to_string(testing::shared(&format!("drives/traces/{name}.trace")).unwrap()).unwrap();
    text.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
}
