//! Starts read-ahead after a read: its extent, and the sectors that stay in the buffer.

use super::Drive;
use crate::cache::Content;
use crate::run::Run;
use model::Track;
use model::profile::ReadAhead;
use units::{Lbn, LbnRange, Op, Sectors};

impl Drive {
    /// Starts read-ahead after a request that ends before `end`.
    ///
    /// If `eager`, a new command cannot stop read-ahead before the end of the track, or before its limit if that is nearer.
    pub(super) fn read_further(&mut self, run: Run, end: Lbn, eager: bool) {
        if self.buffers_tracks() {
            self.read_around(run, end);
        } else {
            self.read_on(run, end);
        }
        if eager {
            let past = self.track_of(Lbn::new(end.get() - 1)).map_or(end, |(_, past)| past);
            if let Some(run) = &mut self.run {
                run.least = run.least.max(past.min(run.limit));
            }
        }
    }

    fn buffers_tracks(&self) -> bool {
        self.rules.track_buffer
            && self.cache.enabled
            && self.cache.read_free_sectors
            && self.cache.read_ahead == ReadAhead::TrackAndNext
            && self.model().zero_latency(Op::Read)
    }

    /// Continues the run of a request that ends before `end` to the limit of read-ahead.
    fn read_on(&mut self, mut run: Run, end: Lbn) {
        let segment = run.segment;
        let landed = run.landed_at(self.mechanics.spindle());
        self.give_up_served(segment, end);
        run.limit = self.read_ahead_limit(segment, end);
        run.around = None;
        let least = end + Sectors::new(u64::from(self.cache.minimum_read_ahead));
        run.least = least.min(run.limit);
        self.free = landed;
        self.run = (run.limit > run.next).then_some(run);
    }

    /// Continues the run of a request until its last track is in the buffer completely. If the segment is too small for the
    /// track, continues to the limit of read-ahead instead.
    fn read_around(&mut self, mut run: Run, end: Lbn) {
        let size = self.segments.size;
        let Some((first, past)) =
            self.track_of(Lbn::new(end.get() - 1)).filter(|(first, past)| past.since(*first) <= size)
        else {
            return self.read_on(run, end);
        };
        self.free = run.landed_at(self.mechanics.spindle());
        run.limit = past;
        run.around = Some((first, run.arrival() + self.revolution(run.arrival())));
        self.run = Some(run);
    }

    /// Returns the consecutive LBNs on the track of `lbn` that include it: the first, and the one after the last.
    fn track_of(&self, lbn: Lbn) -> Option<(Lbn, Lbn)> {
        let layout = self.model().layout();
        let track = layout.locate(lbn)?.track;
        let mut run = LbnRange::new(lbn, Sectors::ZERO);
        for extent in layout.extents(track) {
            let len = Sectors::new(u64::from(extent.len));
            run = if extent.lbn == run.end() && !run.is_empty() {
                LbnRange::new(run.start(), run.len() + len)
            } else if run.contains(lbn) {
                break;
            } else {
                LbnRange::new(extent.lbn, len)
            };
        }
        run.contains(lbn).then_some((run.start(), run.end()))
    }

    /// Returns whether the buffer drops requested data once the host has it.
    pub(super) fn served_leave(&self) -> bool {
        self.rules.served_data_leave && self.cache.read_ahead_over_requested != 0
    }

    /// Drops the data before `end`, which the host has, if read-ahead may replace it.
    pub(super) fn give_up_served(&mut self, segment: usize, end: Lbn) {
        if self.served_leave() {
            let s = self.segments.get_mut(segment);
            if s.content == Content::Read {
                s.start = s.start.max(end.min(s.end));
            }
        }
    }

    /// Returns the LBN before which read-ahead ends, after a request that ends before `end`.
    pub(super) fn read_ahead_limit(&self, segment: usize, end: Lbn) -> Lbn {
        let layout = self.model().layout();
        let last = Lbn::new(layout.capacity().get());
        let size = self.segments.size;
        let s = self.segments.get(segment);
        if !self.cache.enabled || end >= last {
            return end;
        }
        let limit = match self.cache.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Segment => {
                let limit = self.segment_limit(s.start, end);
                let keeps = self.rules.read_ahead_fills_segment && self.cache.read_ahead_over_requested == 0;
                if keeps { limit.min(s.start + size) } else { limit }
            }
            ReadAhead::Track | ReadAhead::Cylinder => {
                let far = self.segment_limit(s.start, end);
                let whole_cylinder = self.cache.read_ahead == ReadAhead::Cylinder;
                self.before_the_arm_moves(end, far, whole_cylinder)
            }
            ReadAhead::TrackAndNext => {
                let track = self.whole_track_limit(s.start, end);
                if self.rules.read_ahead_fills_segment { track.max(s.start + size) } else { track }
            }
        };
        limit.clamp(end, last)
    }

    /// Returns the LBN after the track of `end`; one track further if the segment, from `start` on, begins before that track.
    fn whole_track_limit(&self, start: Lbn, end: Lbn) -> Lbn {
        match self.track_of(end) {
            Some((first, past)) if start < first => {
                let layout = self.model().layout();
                let sectors = layout.locate(end).map_or(0, |at| layout.track(at.track).sectors);
                past + Sectors::new(u64::from(sectors))
            }
            Some((_, past)) => past,
            None => end,
        }
    }

    /// Returns DiskSim's limit for read-ahead that fills a segment and may cross tracks.
    fn segment_limit(&self, start: Lbn, end: Lbn) -> Lbn {
        let size = self.segments.size;
        match (self.cache.maximum_read_ahead, self.cache.read_ahead_over_requested) {
            (0, 0) => {
                let least = end + Sectors::new(u64::from(self.cache.minimum_read_ahead));
                (start + size).max(least)
            }
            (0, _) => end + size,
            (most, _) => end + Sectors::new(u64::from(most)),
        }
    }

    /// Returns the LBN at which the next track, or the next cylinder if `whole_cylinder`, begins after `end`; at most `far`.
    fn before_the_arm_moves(&self, end: Lbn, far: Lbn, whole_cylinder: bool) -> Lbn {
        let layout = self.model().layout();
        let Some(here) = layout.locate(end) else { return end };
        let here = layout.track(here.track);
        let stays =
            |track: Track| track.cylinder == here.cylinder && (whole_cylinder || track.head == here.head);
        let far = far.min(Lbn::new(layout.capacity().get()));
        let mut limit = end;
        for piece in layout.pieces(LbnRange::new(end, Sectors::new(far.get().saturating_sub(end.get())))) {
            if !stays(layout.track(piece.track)) {
                break;
            }
            limit = piece.lbn + Sectors::new(u64::from(piece.len));
        }
        limit
    }
}
