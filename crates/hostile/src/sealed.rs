//! Adds matching checksums to bytes, so that readers do not refuse them at once.

/// Returns these bytes in the frame of the mimic's files: letters, version and length before them, and a checksum behind them.
pub(crate) fn framed(letters: &[u8; 8], body: &[u8]) -> Vec<u8> {
    let mut whole = letters.to_vec();
    whole.extend(1u32.to_le_bytes());
    whole.extend((body.len() as u64).to_le_bytes());
    whole.extend_from_slice(body);
    summed(whole)
}

/// Returns these bytes and their CRC-32.
pub(crate) fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

/// Returns a record of the journal of tasks with an event for each line.
pub(crate) fn journal(bodies: &[u8]) -> Vec<u8> {
    let mut record = Vec::new();
    for body in bodies.split(|byte| *byte == b'\n') {
        record.extend((body.len() as u32).to_le_bytes());
        record.extend(body);
    }
    record
}

/// Returns an image whose header, chunks and index match: each line is a block.
pub(crate) fn image(blocks: &[u8]) -> Vec<u8> {
    use apps::backup::image::{Header, ImageWriter};
    use apps::snapshot::{Shape, SnapshotId, VolumeId};
    let lines: Vec<&[u8]> = blocks.split(|byte| *byte == b'\n').take(64).collect();
    let shape = Shape {
        volume: VolumeId(7),
        first: units::Lbn::ZERO,
        block: units::Sectors::new(2),
        blocks: lines.len() as u64,
    };
    let header = Header {
        image: 9,
        shape,
        snapshot: SnapshotId(1),
        base: None,
        sector_bytes: 512,
        chunks: lines.len() as u64,
    };
    let mut writer = ImageWriter::new(header, Vec::new());
    for (block, line) in lines.iter().enumerate() {
        let mut bytes = line.to_vec();
        bytes.resize(1024, 0);
        writer.put(block as u64, &bytes, &[]);
    }
    writer.finish();
    let _ = writer.flush();
    writer.into_sink()
}
