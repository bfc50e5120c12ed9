//! `freeblock inspect`.

use crate::drive::json;
use crate::problem::Problem;
use crate::tables::{capacity, table};
use clap::Args;
use device::{Inspection, Recording};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A disk's path, or that of one of its partitions
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Serialize)]
struct InspectPage {
    disk: String,
    partition: Option<String>,
    model: Option<String>,
    capacity_bytes: u64,
    logical_sector_bytes: Option<u32>,
    physical_sector_bytes: Option<u32>,
    rotational: Option<bool>,
    rate_rpm: Option<u32>,
    zoned: &'static str,
    discard: Option<bool>,
    write_cache: Option<bool>,
    queue_depth: Option<u32>,
    actuators: Vec<Actuator>,
    recording: Option<&'static str>,
    heads_out_of_service: Option<bool>,
    identity: Option<String>,
    can_be_served: bool,
    findings: Vec<InspectRow>,
}

#[derive(Serialize)]
struct Actuator {
    start_sector: u64,
    sectors: u64,
}

#[derive(Serialize)]
struct InspectRow {
    property: &'static str,
    value: String,
    verdict: &'static str,
    reason: String,
}

pub(crate) fn execute(args: &InspectArgs) -> Result<String, Problem> {
    let disk = device::inspect(&args.device).map_err(Problem::failed)?;
    let page = page(&disk);
    if args.json { json(&page) } else { Ok(shown(&page)) }
}

fn page(disk: &Inspection) -> InspectPage {
    let rows = disk.findings().into_iter().map(|finding| InspectRow {
        property: finding.property,
        value: finding.value,
        verdict: finding.verdict.name(),
        reason: finding.reason,
    });
    let actuators =
        disk.actuators.iter().map(|range| Actuator { start_sector: range.start, sectors: range.sectors });
    InspectPage {
        disk: disk.disk.clone(),
        partition: disk.partition.clone(),
        model: disk.model.clone(),
        capacity_bytes: disk.bytes,
        logical_sector_bytes: disk.logical_sector,
        physical_sector_bytes: disk.physical_sector,
        rotational: disk.rotational,
        rate_rpm: disk.rate.map(units::Rpm::get),
        zoned: disk.zoned.name(),
        discard: disk.discard,
        write_cache: disk.write_cache,
        queue_depth: disk.queue_depth,
        actuators: actuators.collect(),
        recording: disk.log.recording().map(|recording| match recording {
            Recording::Conventional => "conventional",
            Recording::Shingled => "shingled",
        }),
        heads_out_of_service: disk.log.depopulated(),
        identity: disk.identity.clone(),
        can_be_served: disk.can_be_served(),
        findings: rows.collect(),
    }
}

fn shown(page: &InspectPage) -> String {
    let model = page.model.as_deref().unwrap_or("model unknown");
    let of = page.partition.as_ref().map_or(String::new(), |name| format!(", which holds {name}"));
    let rows = page
        .findings
        .iter()
        .map(|row| vec![row.property.into(), row.value.clone(), row.verdict.into(), row.reason.clone()]);
    let rows = table(&["property", "value", "verdict", "what follows"], &[0, 1, 2, 3], rows);
    let end = if page.can_be_served {
        "nothing that the kernel or the disk reports keeps freeblock from scheduling this disk"
    } else {
        "freeblock cannot schedule this disk"
    };
    format!("{}: {model}, {}{of}\n\n{rows}\n{end}\n", page.disk, capacity(page.capacity_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{Farm, Log, Zoned};

    fn disk() -> Inspection {
        Inspection {
            disk: "sdb".into(),
            partition: Some("sdb1".into()),
            model: Some("ATA ST8000AS0002".into()),
            bytes: 8_001_563_222_016,
            logical_sector: Some(512),
            physical_sector: Some(4_096),
            rotational: Some(true),
            rate: units::Rpm::new(5_900),
            zoned: Zoned::No,
            discard: Some(true),
            write_cache: Some(true),
            queue_depth: Some(32),
            log: Log::Read(Farm { recording: Some(Recording::Conventional), depopulated: Some(true) }),
            ..Inspection::default()
        }
    }

    #[test]
    fn a_page_names_the_disk_each_property_and_the_verdict() {
        let text = shown(&page(&disk()));
        for part in [
            "sdb: ATA ST8000AS0002, 8.00 TB, which holds sdb1",
            "drive-managed",
            "refused",
            "512 bytes on 4096",
        ] {
            assert!(text.contains(part), "{part} in:\n{text}");
        }
        assert!(text.ends_with("freeblock cannot schedule this disk\n"), "{text}");
        let conventional = page(&Inspection { discard: Some(false), ..disk() });
        assert!(shown(&conventional).contains("nothing that the kernel or the disk reports keeps"));
    }

    #[test]
    fn the_json_has_every_property() {
        let text = json(&page(&disk())).unwrap();
        for key in [
            "\"can_be_served\": false",
            "\"rate_rpm\": 5900",
            "\"zoned\": \"none\"",
            "\"physical_sector_bytes\": 4096",
            "\"verdict\": \"refused\"",
            "\"recording\": \"conventional\"",
            "\"heads_out_of_service\": true",
        ] {
            assert!(text.contains(key), "{key} in:\n{text}");
        }
    }
}
