//! Applications on the real core in a simulated drive that holds bytes: random foreground, bad sectors, completions that
//! are lost or late, power cuts.

mod backup;
mod reorganizer;
mod scrub;
mod world;
