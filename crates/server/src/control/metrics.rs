//! Metrics for Prometheus, made from the status at the moment of the request.

use crate::disk::{BOUNDS_US, BackgroundStatus, DiskStatus, Latency, MeasuredShare};
use crate::manager::status::{Outcome, TaskStatus};
use crate::task::spec::TaskKind;
use crate::task::table::TaskState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use std::fmt::{Error, Write};

/// The figures of one disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskMetrics {
    /// The disk's name.
    pub disk: String,
    pub status: DiskStatus,
    pub tasks: Vec<TaskStatus>,
    /// How many tasks of each kind have ended, and how.
    pub outcomes: Vec<(TaskKind, Outcome)>,
}

/// Encodes the metrics of all disks as text. A disk in `silent`, which does not answer, has only the metric that says
/// so.
pub(crate) fn encode(disks: &[DiskMetrics], silent: &[String]) -> String {
    let mut registry = Registry::with_prefix("freeblock");
    registry.register_collector(Box::new(MetricsSnapshot { disks: disks.to_vec(), silent: silent.to_vec() }));
    let mut out = String::new();
    // Writing to a string does not fail.
    let encoded = text::encode(&mut out, &registry);
    debug_assert!(encoded.is_ok());
    histograms(&mut out, disks);
    out
}

#[derive(Debug)]
struct MetricsSnapshot {
    disks: Vec<DiskMetrics>,
    /// The names of the disks that do not answer.
    silent: Vec<String>,
}

/// A metric: its name, its description, and the function that reads it.
type Metric<T, V> = (&'static str, &'static str, fn(&T) -> V);
type Of = fn(&DiskStatus) -> &Latency;

/// Pairs of label and value, in the order of the output.
type Labels<'a> = Vec<(&'static str, String)>;

impl Collector for MetricsSnapshot {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), Error> {
        let disk = |one: &DiskMetrics| vec![("disk", one.disk.clone())];
        let answer = self.disks.iter().map(|one| (disk(one), 1.0));
        let none = self.silent.iter().map(|name| (vec![("disk", name.clone())], 0.0));
        let answers: Vec<(Labels<'_>, f64)> = answer.chain(none).collect();
        let help = "Whether the disk answers; if not, its other metrics are missing";
        family(&mut to, "disk_answers", help, MetricType::Gauge, &answers)?;
        let counters: [Metric<DiskStatus, u64>; 11] = [
            ("foreground_failed", "Foreground requests that failed", |s| s.failed),
            ("foreground_read_bytes", "Bytes read for the foreground", |s| s.read_bytes),
            ("foreground_written_bytes", "Bytes written for the foreground", |s| s.written_bytes),
            ("background_gap_bytes", "Background bytes in gaps of the foreground: free", |s| {
                s.background.gap_bytes
            }),
            ("background_idle_bytes", "Background bytes in idle time", |s| s.background.idle_bytes),
            ("background_promoted_bytes", "Background bytes whose requests became foreground work", |s| {
                s.background.promoted_bytes
            }),
            ("gaps_seen", "Gaps looked at", |s| s.gaps.seen),
            ("gaps_used", "Gaps with a detour", |s| s.gaps.used),
            ("extra_revolutions", "Gaps for which a request has waited one more revolution", |s| {
                s.gaps.extra_revolutions
            }),
            ("timed_out_commands", "Commands that the device did not answer in time", |s| s.timed_out),
            ("missed_revolutions", "Commands that took whole revolutions longer than predicted", |s| {
                s.foresight.late
            }),
        ];
        for (name, help, value) in counters {
            let values: Vec<(Labels<'_>, f64)> =
                self.disks.iter().map(|one| (disk(one), value(&one.status) as f64)).collect();
            family(&mut to, name, help, MetricType::Counter, &values)?;
        }
        let gauges: [Metric<DiskStatus, f64>; 6] = [
            ("outstanding", "Foreground requests that are not answered yet", |s| s.outstanding as f64),
            ("unanswered_commands", "Timed-out commands that the device still has not answered", |s| {
                s.unanswered as f64
            }),
            ("predicted_ratio", "The part of commands predicted to a tenth of a millisecond", |s| {
                s.foresight.within_100us
            }),
            (
                "mistrusted",
                "Whether it has contradicted its profile for so long that gaps are not used",
                |s| f64::from(u8::from(s.mistrusted)),
            ),
            (
                "harm_ratio",
                "Foreground delay by idle work, as a share of response times or of time at the head, whichever is larger",
                |s| s.idle.share,
            ),
            (
                "detour_harm_ratio",
                "Foreground delay by detours, as a share of response times or of time at the head, whichever is larger",
                |s| s.detours.share,
            ),
        ];
        for (name, help, value) in gauges {
            let values: Vec<(Labels<'_>, f64)> =
                self.disks.iter().map(|one| (disk(one), value(&one.status))).collect();
            family(&mut to, name, help, MetricType::Gauge, &values)?;
        }
        let bounds: Vec<(Labels<'_>, f64)> =
            self.disks.iter().filter_map(|one| Some((disk(one), one.status.harm_bound?))).collect();
        let help = "The bound on the harm of idle work and detours together";
        family(&mut to, "harm_bound_ratio", help, MetricType::Gauge, &bounds)?;
        let probed: Vec<(Labels<'_>, f64)> =
            self.disks.iter().filter_map(|one| Some((disk(one), one.status.probe.as_ref()?.share))).collect();
        let help =
            "The part of a probe's measurements that is done, on a disk that is probed while it serves";
        family(&mut to, "probe_done_ratio", help, MetricType::Gauge, &probed)?;
        self.measured(&mut to)?;
        let values: Vec<(Labels<'_>, f64)> =
            self.disks.iter().filter_map(|one| Some((disk(one), wrong_blocks(&one.tasks)?))).collect();
        let (name, help) =
            ("wrong_blocks", "Blocks that differed from their checksums, in the last scrub with checksums");
        family(&mut to, name, help, MetricType::Gauge, &values)?;
        self.background(&mut to)?;
        let tasks: [Metric<TaskStatus, f64>; 8] = [
            ("task_running", "Whether a task works", |t| f64::from(u8::from(t.state == TaskState::Running))),
            ("task_paused", "Whether a task stands still, on request or because it cannot go on", |t| {
                f64::from(u8::from(t.state == TaskState::Paused))
            }),
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
            let values = self.tasks(value);
            family(&mut to, name, help, MetricType::Gauge, &values)?;
        }
        let failed = self.kinds(|outcome| Some(outcome.failed as f64));
        let help = "Tasks that failed since the daemon started";
        family(&mut to, "tasks_failed", help, MetricType::Counter, &failed)?;
        let seconds = |ms: Option<u64>| ms.map(|ms| ms as f64 / 1e3);
        let success = self.kinds(|outcome| seconds(outcome.last_success_unix_ms));
        let help = "When the last task of this kind was done, in seconds since 1970; nothing if none was";
        family(&mut to, "task_last_success_timestamp_seconds", help, MetricType::Gauge, &success)?;
        let failure = self.kinds(|outcome| seconds(outcome.last_failure_unix_ms));
        let help = "When the last task of this kind failed, in seconds since 1970; nothing if none did";
        family(&mut to, "task_last_failure_timestamp_seconds", help, MetricType::Gauge, &failure)?;
        let moved: [Metric<TaskStatus, f64>; 2] = [
            ("task_free_bytes", "Bytes of a task in gaps of the foreground: free", |t| t.free_bytes as f64),
            ("task_idle_bytes", "Bytes of a task in idle time", |t| t.idle_bytes as f64),
        ];
        for (name, help, value) in moved {
            let values = self.tasks(value);
            family(&mut to, name, help, MetricType::Counter, &values)?;
        }
        Ok(())
    }
}

/// Returns the number of wrong blocks found by the latest scrub with checksums, finished or not; `None` if the disk
/// has had no such scrub.
fn wrong_blocks(tasks: &[TaskStatus]) -> Option<f64> {
    let content = tasks.iter().rev().find_map(|task| task.checksums.as_ref())?;
    Some((content.wrong.len() as u64 + content.wrong_more) as f64)
}

impl MetricsSnapshot {
    /// Writes the measured cost of background work, for the disks that measure it. A value that is not known yet is
    /// written as NaN.
    fn measured(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut requests: Vec<(Labels<'_>, f64)> = Vec::new();
        let (mut responses, mut shares) = (Vec::new(), Vec::new());
        for (one, measured) in self.disks.iter().filter_map(|one| Some((one, one.status.measured?))) {
            let label = |name, value: &str| vec![("disk", one.disk.clone()), (name, value.to_owned())];
            for (kind, arm) in [("on", measured.on), ("plain", measured.plain), ("through", measured.through)]
            {
                requests.push((label("window", kind), arm.requests as f64));
                let mean = if arm.requests > 0 { arm.response_ms / 1e3 } else { f64::NAN };
                responses.push((label("window", kind), mean));
            }
            for (of, share) in [("background", measured.background), ("order", measured.order)] {
                let of_share = |end: fn(&MeasuredShare) -> f64| share.as_ref().map_or(f64::NAN, end);
                let ends = [
                    ("low", of_share(|share| share.low)),
                    ("mean", of_share(|share| share.mean)),
                    ("high", of_share(|share| share.high)),
                ];
                for (end, value) in ends {
                    let mut labels = label("of", of);
                    labels.push(("end", end.to_owned()));
                    shares.push((labels, value));
                }
            }
        }
        let help = "Requests of the windows in which the cost of background work is measured";
        family(to, "measured_requests", help, MetricType::Counter, &requests)?;
        let help = "The mean response time of these requests";
        family(to, "measured_response_seconds", help, MetricType::Gauge, &responses)?;
        let help =
            "The measured increase of the mean response time, with the ends of its 95% confidence interval";
        family(to, "measured_harm_ratio", help, MetricType::Gauge, &shares)
    }

    /// Writes the metrics of background requests, for the disks that serve some.
    fn background(&self, to: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Figure = Metric<BackgroundStatus, f64>;
        let counters: [Figure; 7] = [
            ("background_requests", "Background requests of clients that were done", |b| {
                b.reads.count as f64
            }),
            ("background_requests_read_bytes", "Bytes that they read", |b| b.read_bytes as f64),
            ("background_requests_failed", "Background requests of clients that failed", |b| b.failed as f64),
            (
                "background_requests_promoted",
                "Background requests that waited longer than the floor permits, and took time from the foreground",
                |b| b.promoted.requests as f64,
            ),
            (
                "background_requests_promoted_device_seconds",
                "The time for which the device was busy with these, at most",
                |b| b.promoted.device_us / 1e6,
            ),
            ("background_requests_ahead_bytes", "Bytes that they got from memory, read ahead", |b| {
                b.memory.given_bytes as f64
            }),
            (
                "background_requests_unread_bytes",
                "Bytes read ahead that were dropped before a request",
                |b| b.memory.unread_bytes as f64,
            ),
        ];
        let gauges: [Figure; 3] = [
            ("background_requests_waiting", "Background requests that are not answered yet", |b| {
                b.waiting as f64
            }),
            ("background_requests_oldest_seconds", "The time for which the oldest of them has waited", |b| {
                b.oldest_wait_us / 1e6
            }),
            ("background_requests_memory_bytes", "Memory of blocks that are read ahead", |b| {
                b.memory.held_bytes as f64
            }),
        ];
        let counters = counters.map(|figure| (figure, MetricType::Counter));
        let gauges = gauges.map(|figure| (figure, MetricType::Gauge));
        for ((name, help, value), kind) in counters.into_iter().chain(gauges) {
            let of = |one: &DiskMetrics| {
                let background = one.status.background_requests.as_ref()?;
                Some((vec![("disk", one.disk.clone())], value(background)))
            };
            let values: Vec<(Labels<'_>, f64)> = self.disks.iter().filter_map(of).collect();
            family(to, name, help, kind, &values)?;
        }
        Ok(())
    }

    /// Returns a value for each unfinished task: those of finished tasks no longer change. A task's labels must stay
    /// constant, so its state is not among them.
    fn tasks(&self, value: fn(&TaskStatus) -> f64) -> Vec<(Labels<'static>, f64)> {
        let each = |one: &DiskMetrics| {
            let live = one.tasks.iter().filter(|task| !task.state.is_over());
            let labelled = live.map(|task| {
                let (id, kind) = (task.id.to_string(), task.kind.to_string());
                (vec![("disk", one.disk.clone()), ("task", id), ("kind", kind)], value(task))
            });
            labelled.collect::<Vec<_>>()
        };
        self.disks.iter().flat_map(each).collect()
    }

    /// Returns a value for each kind of task of each disk, if the kind has one.
    fn kinds(&self, value: impl Fn(&Outcome) -> Option<f64>) -> Vec<(Labels<'static>, f64)> {
        let all =
            self.disks.iter().flat_map(|one| one.outcomes.iter().map(move |(kind, of)| (one, kind, of)));
        let labelled = all.filter_map(|(one, kind, outcome)| {
            Some((vec![("disk", one.disk.clone()), ("kind", kind.to_string())], value(outcome)?))
        });
        labelled.collect()
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

/// Writes histograms as text: the disk has counted already, and the library has no histogram that takes finished
/// counts.
fn histograms(out: &mut String, disks: &[DiskMetrics]) {
    let kinds: [(&str, &str, Of); 6] = [
        ("read_seconds", "Foreground reads", |s| &s.reads),
        ("write_seconds", "Foreground writes", |s| &s.writes),
        ("flush_seconds", "Flushes", |s| &s.flushes),
        ("discard_seconds", "Discards", |s| &s.discards),
        ("prediction_error_seconds", "How far commands' times were from the prediction", |s| {
            &s.foresight.errors
        }),
        ("lateness_seconds", "How long after the device was done the host knew", |s| &s.lateness),
    ];
    let end = out.rfind("# EOF").unwrap_or(out.len());
    out.truncate(end);
    for (name, help, of) in kinds {
        let _ = writeln!(out, "# HELP freeblock_{name} {help}.\n# TYPE freeblock_{name} histogram");
        for DiskMetrics { disk, status, .. } in disks {
            let latency = of(status);
            // Names of disks need no escaping, but this function does not rely on that.
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
    fn metrics_show_when_a_disk_contradicts_its_profile_and_when_it_follows_it_again() {
        let encoded = |mistrusted| {
            let status = DiskStatus { mistrusted, ..DiskStatus::default() };
            encode(&[DiskMetrics { disk: "d0".to_owned(), status, ..DiskMetrics::default() }], &[])
        };
        for (mistrusted, value) in [(true, "1.0"), (false, "0.0")] {
            let line = format!("freeblock_mistrusted{{disk=\"d0\"}} {value}");
            assert!(encoded(mistrusted).lines().any(|encoded| encoded == line), "{}", encoded(mistrusted));
        }
    }

    #[test]
    fn metrics_show_failures_and_the_last_success_of_each_kind() {
        let outcome = Outcome {
            failed: 2,
            last_failure_unix_ms: Some(1_500),
            last_success_unix_ms: Some(1_700_000_000_250),
        };
        let outcomes = vec![(TaskKind::Scrub, outcome), (TaskKind::Backup, Outcome::default())];
        let text = encode(&[DiskMetrics { disk: "d0".to_owned(), outcomes, ..DiskMetrics::default() }], &[]);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("kind=") && !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "freeblock_tasks_failed_total{disk=\"d0\",kind=\"scrub\"} 2.0",
                "freeblock_tasks_failed_total{disk=\"d0\",kind=\"backup\"} 0.0",
                "freeblock_task_last_success_timestamp_seconds{disk=\"d0\",kind=\"scrub\"} 1700000000.25",
                "freeblock_task_last_failure_timestamp_seconds{disk=\"d0\",kind=\"scrub\"} 1.5",
            ],
            "{text}"
        );
    }
}
