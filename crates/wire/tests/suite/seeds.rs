//! The seeds of the fuzz target `codec`, one or more for each chunk, are completely well formed.

use std::collections::BTreeSet;
use std::path::Path;

use whimbrel_wire::{Checksum, Chunk, PacketView};

#[test]
fn seeds_are_well_formed_and_cover_every_chunk() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/codec");
    let mut types = BTreeSet::new();
    for entry in folder.read_dir().expect("the folder of seeds") {
        let path = entry.expect("a readable folder").path();
        let bytes = std::fs::read(&path).expect("a readable seed");
        let view = PacketView::parse(&bytes, Checksum::Ignore).expect("a common header");
        for chunk in view.chunks() {
            let chunk = chunk.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => assert!(init.parameters.iter().all(|one| one.is_ok())),
                Chunk::Abort { causes, .. } => assert_eq!(causes.iter().filter(|one| one.is_ok()).count(), 1),
                Chunk::Asconf(asconf) | Chunk::AsconfAck(asconf) => {
                    assert!(asconf.parameters.iter().all(|one| one.is_ok()));
                }
                Chunk::Error { causes } => assert_eq!(causes.iter().filter(|one| one.is_ok()).count(), 12),
                _ => {}
            }
            types.insert(chunk.chunk_type());
        }
    }
    assert_eq!(types.iter().filter(|chunk_type| chunk_type.is_known()).count(), 23);
    assert!(types.iter().any(|chunk_type| !chunk_type.is_known()));
}
