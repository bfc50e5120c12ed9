//! Reads the drive's electronics from a `disksim_disk`.

use super::mechanics::time;
use super::source::{Fault, refuse};
use super::syntax::Block;
use crate::profile::{Cache, ExtraWriteDisconnect, Firmware, Overheads, QueueOrder, ReadAhead, WriteBack};

/// The components through which the disk's sectors pass: its bus, and the controller above the bus.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Path<'b> {
    pub bus: Option<&'b Block>,
    pub controller: Option<&'b Block>,
}

/// Parameters that other functions read, or that only affect DiskSim's output. They cause no note.
const SILENTLY_IGNORED: [&str; 4] = ["Model", "Scheduler", "Print stats", "Avg sectors per cylinder"];

struct Reader<'b> {
    block: &'b Block,
    seen: Vec<&'static str>,
}

impl Reader<'_> {
    fn flag(&mut self, key: &'static str) -> Result<bool, Fault> {
        self.seen.push(key);
        Ok(self.block.whole_or(key, 0, 1, 0)? == 1)
    }

    fn whole(&mut self, key: &'static str, most: u64, default: u64) -> Result<u64, Fault> {
        self.seen.push(key);
        self.block.whole_or(key, 0, most, default)
    }

    fn count(&mut self, key: &'static str, default: u32) -> Result<u32, Fault> {
        Ok(self.whole(key, u64::from(u32::MAX), u64::from(default))? as u32)
    }

    fn ms(&mut self, key: &'static str, notes: &mut Vec<String>) -> Result<f64, Fault> {
        self.seen.push(key);
        time(self.block, key, notes)
    }

    fn pair(
        &mut self,
        after_read: &'static str,
        after_write: &'static str,
        notes: &mut Vec<String>,
    ) -> Result<(f64, f64), Fault> {
        Ok((self.ms(after_read, notes)?, self.ms(after_write, notes)?))
    }

    /// Returns the value of a parameter that is a share, from 0 to 1.
    fn share(&mut self, key: &'static str) -> Result<f64, Fault> {
        self.seen.push(key);
        let share = self.block.number_or(key, 0.0)?;
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        let at = self.block.require(key)?.at();
        Err(refuse(at, format!("`{key}` is {share}"), "give a share from 0 to 1"))
    }
}

/// Returns the electronics, whether reads have zero-latency access, and whether writes have it.
pub(super) fn read(
    block: &Block,
    path: Path<'_>,
    notes: &mut Vec<String>,
) -> Result<(Firmware, bool, bool), Fault> {
    let mut r = Reader { block, seen: SILENTLY_IGNORED.to_vec() };
    let (bus_read_sector_ms, bus_write_sector_ms) = match path.bus {
        Some(bus) => {
            (time(bus, "Read block transfer time", notes)?, time(bus, "Write block transfer time", notes)?)
        }
        None => (0.0, 0.0),
    };
    let controller_ms = match path.controller {
        Some(controller) => time(controller, "Bulk sector transfer time", notes)?,
        None => 0.0,
    };
    let overhead_scale = {
        r.seen.push("Time scale for overheads");
        let scale = block.number_or("Time scale for overheads", 1.0)?;
        if scale < 0.0 {
            let at = block.require("Time scale for overheads")?.at();
            return Err(refuse(at, format!("overheads scaled by {scale}"), "give 0 or more"));
        }
        scale
    };
    let firmware = Firmware {
        per_request_overhead_ms: r.ms("Per-request overhead time", notes)?,
        overhead_scale,
        bulk_sector_ms: r.ms("Bulk sector transfer time", notes)?.max(controller_ms),
        bus_read_sector_ms,
        bus_write_sector_ms,
        hold_bus_read: r.flag("Hold bus entire read xfer")?,
        hold_bus_write: r.flag("Hold bus entire write xfer")?,
        queue_depth: r.count("Max queue length", 1)?.max(1),
        queue_order: queue_order(block, notes)?,
        overheads: overheads(&mut r, notes)?,
        cache: cache(&mut r, notes)?,
    };
    let zero_latency = (r.flag("Immediate buffer read")?, r.flag("Immediate buffer write")?);
    if r.flag("Never disconnect")? {
        notes
            .push("`Never disconnect` is ignored: the bus is not modelled beyond its time per sector".into());
    }
    for (key, default) in [("Read directly to buffer", 1), ("Calc sector by sector", 1)] {
        if r.whole(key, u64::MAX, default)? != default {
            notes.push(format!("`{key}` is ignored and taken as {default}"));
        }
    }
    for field in &block.fields {
        if !r.seen.iter().any(|known| field.key.eq_ignore_ascii_case(known)) {
            notes.push(format!(
                "unknown parameter `{}` of the disk is ignored",
                super::source::printable(&field.key)
            ));
        }
    }
    let absent: Vec<&str> =
        r.seen.iter().skip(SILENTLY_IGNORED.len()).copied().filter(|key| block.get(key).is_none()).collect();
    if !absent.is_empty() {
        notes.push(format!("not given, taken at their defaults: {}", absent.join(", ")));
    }
    Ok((firmware, zero_latency.0, zero_latency.1))
}

/// Returns the order of the drive's own queue. DiskSim has 28 policies; each is mapped to the most similar [`QueueOrder`].
fn queue_order(block: &Block, notes: &mut Vec<String>) -> Result<QueueOrder, Fault> {
    const POLICY: &str = "Scheduling policy";
    const DEPTH: &str = "Max queue length";
    let Some(scheduler) = block.get("Scheduler") else { return Ok(QueueOrder::default()) };
    let scheduler = scheduler.block("Scheduler")?;
    let policy = scheduler.whole_or(POLICY, 0, u64::MAX, 1)?;
    let order = match policy {
        2 | 5 | 17..=19 => QueueOrder::Elevator,
        3 | 6 => QueueOrder::CLook,
        4 | 7 => QueueOrder::Sstf,
        8..=16 | 20..=26 => QueueOrder::Sptf,
        _ => QueueOrder::Fcfs,
    };
    let exact = [0, 1, 2, 3, 4, 5, 6, 7, 8].contains(&policy);
    if !exact && block.whole_or(DEPTH, 0, u64::from(u32::MAX), 1)? > 1 {
        notes.push(format!("`{POLICY}` {policy} of the drive's queue is taken as `{}`", order.name()));
    }
    Ok(order)
}

fn overheads(r: &mut Reader<'_>, notes: &mut Vec<String>) -> Result<Overheads, Fault> {
    let twice = r.flag("Extra write disconnect")?;
    let extra = ExtraWriteDisconnect {
        command_ms: r.ms("Extradisc command overhead", notes)?,
        disconnect_ms: r.ms("Extradisc disconnect overhead", notes)?,
        between_ms: r.ms("Extradisc inter-disconnect delay", notes)?,
        second_disconnect_ms: r.ms("Extradisc 2nd disconnect overhead", notes)?,
        seek_delta_ms: r.ms("Extradisc seek delta", notes)?,
    };
    Ok(Overheads {
        read_hit: r.pair("Read hit over. after read", "Read hit over. after write", notes)?,
        read_miss: r.pair("Read miss over. after read", "Read miss over. after write", notes)?,
        write_hit: r.pair("Write hit over. after read", "Write hit over. after write", notes)?,
        write_miss: r.pair("Write miss over. after read", "Write miss over. after write", notes)?,
        read_completion: r.ms("Read completion overhead", notes)?,
        write_completion: r.ms("Write completion overhead", notes)?,
        data_preparation: r.ms("Data preparation overhead", notes)?,
        first_reselect: r.ms("First reselect overhead", notes)?,
        other_reselect: r.ms("Other reselect overhead", notes)?,
        read_disconnect: r.pair("Read disconnect afterread", "Read disconnect afterwrite", notes)?,
        write_disconnect: r.ms("Write disconnect overhead", notes)?,
        minimum_seek_delay: r.ms("Minimum seek delay", notes)?,
        extra_write_disconnect: twice.then_some(extra),
    })
}

fn cache(r: &mut Reader<'_>, notes: &mut Vec<String>) -> Result<Cache, Fault> {
    let enabled = r.whole("Enable caching in buffer", 2, 1)?;
    if enabled == 2 {
        notes.push("`Enable caching in buffer` is 2; taken as 1".into());
    }
    let over_requested = {
        const KEY: &str = "Read-ahead over requested";
        r.seen.push(KEY);
        match r.block.get(KEY) {
            None => 0,
            Some(value) => i32::try_from(value.integer(KEY)?)
                .map_err(|_| refuse(value.at(), format!("`{KEY}` is too large"), "give -1, 0 or 1"))?,
        }
    };
    Ok(Cache {
        enabled: enabled > 0,
        segments: r.count("Number of buffer segments", 1)?.max(1),
        segment_sectors: r.count("Segment size (in blks)", 256)?.max(1),
        write_segments: r.count("Maximum number of write segments", 1)?,
        separate_write_segment: r.flag("Use separate write segment")?,
        read_ahead: match r.whole("Buffer continuous read", 4, 0)? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            _ => ReadAhead::TrackAndNext,
        },
        minimum_read_ahead: r.count("Minimum read-ahead (blks)", 0)?,
        maximum_read_ahead: r.count("Maximum read-ahead (blks)", 0)?,
        read_ahead_over_requested: over_requested,
        read_ahead_on_idle_hit: r.flag("Read-ahead on idle hit")?,
        read_free_sectors: r.flag("Read any free blocks")?,
        write_back: match r.whole("Fast write level", 2, 0)? {
            0 => WriteBack::None,
            1 => WriteBack::Append,
            _ => WriteBack::Always,
        },
        combine_sequential_writes: r.flag("Combine seq writes")?,
        stop_in_sector: r.flag("Stop prefetch in sector")?,
        disconnect_write_if_seek: r.flag("Disconnect write if seek")?,
        write_hit_stops_prefetch: r.flag("Write hit stop prefetch")?,
        read_hits_on_written: r.flag("Allow read hits on write data")?,
        immediate_partial_hit: r.flag("Immed transfer partial hit")?,
        almost_hits: r.flag("Allow almost read hits")?,
        sneaky_hits: (
            r.flag("Allow sneaky full read hits")?,
            r.flag("Allow sneaky partial read hits")?,
            r.flag("Allow sneaky intermediate read hits")?,
        ),
        write_prebuffering: r.flag("Allow write prebuffering")?,
        read_watermark: r.share("High (read) water mark")?,
        write_watermark: r.share("Low (write) water mark")?,
        watermark_by_request: r.flag("Set watermark by reqsize")?,
        preseek_level: r.whole("Preseeking level", 2, 0)? as u8,
    })
}
