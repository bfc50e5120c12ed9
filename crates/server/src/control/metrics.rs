//! Metrics for Prometheus, made of the status at the moment of asking.

use crate::desk::status::TaskStatus;
use crate::disk::{BOUNDS_US, DiskStatus, Latency};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{Error, Write};

/// A disk's name, its status, its tasks.
pub(crate) type One = (String, DiskStatus, Vec<TaskStatus>);

/// All of them as text.
pub(crate) fn encode(disks: &[One]) -> String {
    let mut registry = Registry::with_prefix("freeblock");
    registry.register_collector(Box::new(Snapshot(disks.to_vec())));
    let mut out = String::new();
    // A string takes whatever is written to it.
    let told = text::encode(&mut out, &registry);
    debug_assert!(told.is_ok());
    histograms(&mut out, disks);
    out
}

#[derive(Debug)]
struct Snapshot(Vec<One>);

/// A metric's name, what it is, and where it is had from.
type Named<T, V> = (&'static str, &'static str, fn(&T) -> V);
type Of = fn(&DiskStatus) -> &Latency;

/// Labels in order.
type Labels<'a> = Vec<(&'static str, String)>;

impl Collector for Snapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        let disk = |one: &One| vec![("disk", one.0.clone())];
        let counters: [Named<DiskStatus, u64>; 11] = [
            ("foreground_failed", "Foreground requests that failed", |s| s.failed),
            ("foreground_read_bytes", "Bytes read for the foreground", |s| s.read_bytes),
            ("foreground_written_bytes", "Bytes written for the foreground", |s| s.written_bytes),
            ("background_gap_bytes", "Background bytes in gaps of the foreground: free", |s| {
                s.background.gap_bytes
            }),
            ("background_idle_bytes", "Background bytes in idle time", |s| s.background.idle_bytes),
            ("background_promoted_bytes", "Background bytes as foreground work", |s| {
                s.background.promoted_bytes
            }),
            ("gaps_seen", "Gaps looked at", |s| s.gaps.seen),
            ("gaps_used", "Gaps with a detour", |s| s.gaps.used),
            ("gaps_bought", "Gaps for which a request has waited one more turn", |s| s.gaps.bought),
            ("timed_out_commands", "Commands that the device did not answer in time", |s| s.timed_out),
            ("missed_revolutions", "Commands that took whole revolutions longer than foreseen", |s| {
                s.foresight.late
            }),
        ];
        for (name, help, value) in counters {
            let values: Vec<(Labels<'_>, f64)> =
                self.0.iter().map(|one| (disk(one), value(&one.1) as f64)).collect();
            family(&mut to, name, help, MetricType::Counter, &values)?;
        }
        let gauges: [Named<DiskStatus, f64>; 6] = [
            ("outstanding", "Foreground requests that are not answered yet", |s| s.outstanding as f64),
            ("unanswered_commands", "Of these, those that it still has not answered", |s| {
                s.unanswered as f64
            }),
            ("foreseen_ratio", "The part of commands foreseen to a tenth of a millisecond", |s| {
                s.foresight.within_100us
            }),
            (
                "mistrusted",
                "Whether it has for long not done what its profile says, and gaps are left alone",
                |s| f64::from(u8::from(s.mistrusted)),
            ),
            ("harm_ratio", "What idle work cost the foreground, as a part of its time", |s| s.idle.share),
            ("detour_harm_ratio", "What detours cost it, as a part of what it waits or has the head", |s| {
                s.detours.share
            }),
        ];
        for (name, help, value) in gauges {
            let values: Vec<(Labels<'_>, f64)> =
                self.0.iter().map(|one| (disk(one), value(&one.1))).collect();
            family(&mut to, name, help, MetricType::Gauge, &values)?;
        }
        let values: Vec<(Labels<'_>, f64)> =
            self.0.iter().filter_map(|one| Some((disk(one), wrong_blocks(&one.2)?))).collect();
        let (name, help) =
            ("wrong_blocks", "Blocks that were not what was recorded, in the last scrub with checksums");
        family(&mut to, name, help, MetricType::Gauge, &values)?;
        let tasks: [Named<TaskStatus, f64>; 6] = [
            ("task_blocks", "Blocks of a task", |t| t.blocks as f64),
            ("task_done_blocks", "Blocks of it that are done, durably", |t| t.done as f64),
            ("task_done_bytes", "Bytes of those", |t| t.bytes as f64),
            ("task_rate_bytes_per_second", "Its rate over the last minute", |t| {
                t.rate_bytes_per_s.unwrap_or(0.0)
            }),
            ("task_bad_sectors", "Sectors that could not be read or written", |t| {
                (t.bad_lbns.len() as u64 + t.bad_more) as f64
            }),
            ("task_misses_deadline", "Whether it will miss its deadline", |t| {
                f64::from(u8::from(t.misses_deadline))
            }),
        ];
        for (name, help, value) in tasks {
            let values = self.tasks(value, true);
            family(&mut to, name, help, MetricType::Gauge, &values)?;
        }
        let moved: [Named<TaskStatus, f64>; 2] = [
            ("task_free_bytes", "Bytes of a task in gaps of the foreground: free", |t| t.free_bytes as f64),
            ("task_idle_bytes", "Bytes of a task in idle time", |t| t.idle_bytes as f64),
        ];
        for (name, help, value) in moved {
            let values = self.tasks(value, false);
            family(&mut to, name, help, MetricType::Counter, &values)?;
        }
        Ok(())
    }
}

/// Of the latest scrub with checksums, over or not; none of a disk that had none.
fn wrong_blocks(tasks: &[TaskStatus]) -> Option<f64> {
    let content = tasks.iter().rev().find_map(|task| task.checksums.as_ref())?;
    Some((content.wrong.len() as u64 + content.wrong_more) as f64)
}

impl Snapshot {
    /// A value of each task that is not over: those that are do not change any more. What counts up is not to begin anew
    /// with each state.
    fn tasks(&self, value: fn(&TaskStatus) -> f64, with_state: bool) -> Vec<(Labels<'static>, f64)> {
        let each = |(disk, _, tasks): &One| {
            let live = tasks.iter().filter(|task| !task.state.is_over());
            let labelled = live.map(|task| {
                let mut labels = vec![
                    ("disk", disk.clone()),
                    ("task", task.id.to_string()),
                    ("kind", task.kind.to_string()),
                ];
                labels.extend(with_state.then(|| ("state", task.state.to_string())));
                (labels, value(task))
            });
            labelled.collect::<Vec<_>>()
        };
        self.0.iter().flat_map(each).collect()
    }
}

fn family(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    values: &[(Labels<'_>, f64)],
) -> Result<(), Error> {
    let none: Option<&Unit> = None;
    let mut metric = to.encode_descriptor(name, help, none, kind)?;
    for (labels, value) in values {
        let family = metric.encode_family(labels)?;
        match kind {
            MetricType::Counter => ConstCounter::new(*value).encode(family)?,
            _ => ConstGauge::new(*value).encode(family)?,
        }
    }
    Ok(())
}

/// Counts were made elsewhere: the library has no histogram that can be filled with them.
fn histograms(out: &mut String, disks: &[One]) {
    let kinds: [(&str, &str, Of); 6] = [
        ("read_seconds", "Foreground reads", |s| &s.reads),
        ("write_seconds", "Foreground writes", |s| &s.writes),
        ("flush_seconds", "Flushes", |s| &s.flushes),
        ("discard_seconds", "Discards", |s| &s.discards),
        ("prediction_error_seconds", "How far commands' times were from what was foreseen", |s| {
            &s.foresight.errors
        }),
        ("lateness_seconds", "How long after the device was done the host knew", |s| &s.lateness),
    ];
    let end = out.rfind("# EOF").unwrap_or(out.len());
    out.truncate(end);
    for (name, help, of) in kinds {
        let _ = writeln!(out, "# HELP freeblock_{name} {help}.\n# TYPE freeblock_{name} histogram");
        for (disk, status, _) in disks {
            let latency = of(status);
            // A disk's name is letters, digits, dots, dashes and underscores, but nobody promises that here.
            let disk = disk.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            for (bound, count) in BOUNDS_US.iter().zip(&latency.buckets) {
                let le = *bound as f64 / 1e6;
                let _ = writeln!(out, "freeblock_{name}_bucket{{disk=\"{disk}\",le=\"{le}\"}} {count}");
            }
            let (count, sum) = (latency.count, latency.sum_us / 1e6);
            let _ = writeln!(out, "freeblock_{name}_bucket{{disk=\"{disk}\",le=\"+Inf\"}} {count}");
            let _ = writeln!(out, "freeblock_{name}_sum{{disk=\"{disk}\"}} {sum}");
            let _ = writeln!(out, "freeblock_{name}_count{{disk=\"{disk}\"}} {count}");
        }
    }
    out.push_str("# EOF\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_does_not_do_what_its_profile_says_is_told_of_and_so_is_that_it_does_again() {
        let told = |mistrusted| {
            encode(&[("d0".to_owned(), DiskStatus { mistrusted, ..DiskStatus::default() }, Vec::new())])
        };
        for (mistrusted, value) in [(true, "1.0"), (false, "0.0")] {
            let line = format!("freeblock_mistrusted{{disk=\"d0\"}} {value}");
            assert!(told(mistrusted).lines().any(|told| told == line), "{}", told(mistrusted));
        }
    }
}
