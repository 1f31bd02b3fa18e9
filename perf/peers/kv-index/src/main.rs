//! A driver for SMG's chain index, kv-index 2.0.0: the lane map of every worker is
//! with the writer, answers are as the index reports them. A ChainIndex takes
//! 1,024 workers, so there is a shard for so many.

use std::collections::HashMap;
use std::sync::Arc;

use drive::Peer;
use drive::corpus::{CLEARS, COPIES, Header, Kind, Op, PRIVATE, digest};
use kv_index::{ChainBlockMap, ContentHash, SequenceHash, ShardedChainIndex, StoredBlock};

struct Chain;

/// The most workers of one ChainIndex.
const WORKERS: u32 = 1024;

#[derive(Clone)]
enum Event {
    Store(u32, Option<SequenceHash>, Vec<StoredBlock>),
    Remove(u32, Vec<SequenceHash>),
    Clear(u32),
}

struct Writer {
    index: Arc<ShardedChainIndex>,
    /// By holder: the worker's id and its blocks.
    workers: Vec<(u32, ChainBlockMap)>,
}

struct Reader {
    index: Arc<ShardedChainIndex>,
    /// Worker id → holder.
    holders: HashMap<u32, u32>,
    answer: Vec<(u32, u32)>,
}

impl Peer for Chain {
    const NAME: &'static str = "kv-index";
    const ABOUT: &'static str = "SMG, crate kv-index 2.0.0, ShardedChainIndex, a shard for up to 1,024 holders; lto, mimalloc";
    const CONCURRENT: bool = true;
    const FACTORS: u64 = PRIVATE | COPIES | CLEARS;
    const HOLDERS: u32 = u32::MAX;

    type Event = Event;
    type Query = Vec<u64>;
    type Writer = Writer;
    type Reader = Reader;

    fn new(header: &Header) -> (Writer, Reader) {
        let shards = header.holders.div_ceil(WORKERS);
        let index = Arc::new(ShardedChainIndex::new(shards as usize, header.holders.min(WORKERS) as usize));
        let mut holders = HashMap::new();
        let workers = (0..header.holders)
            .map(|h| {
                let id = index.intern_worker(&h.to_string()).expect("as many workers as it was made for");
                holders.insert(id, h);
                (id, ChainBlockMap::new())
            })
            .collect();
        (Writer { index: index.clone(), workers }, Reader { index, holders, answer: Vec::new() })
    }

    fn event(op: &Op) -> Event {
        match op.kind {
            Kind::Store => Event::Store(
                op.holder,
                op.parent.map(SequenceHash),
                op.words
                    .chunks_exact(2)
                    .map(|w| StoredBlock { seq_hash: SequenceHash(w[0]), content_hash: ContentHash(w[1]) })
                    .collect(),
            ),
            Kind::Remove => Event::Remove(op.holder, op.words.iter().copied().map(SequenceHash).collect()),
            _ => Event::Clear(op.holder),
        }
    }

    fn query(op: &Op) -> Vec<u64> {
        op.words.to_vec()
    }

    fn apply(w: &mut Writer, events: &mut [Event]) {
        for e in events {
            match e {
                Event::Store(holder, parent, blocks) => {
                    let (id, map) = &mut w.workers[*holder as usize];
                    // A refused event shows as a wrong answer.
                    let _ = w.index.apply_stored(*id, blocks, *parent, map);
                }
                Event::Remove(holder, names) => {
                    let (id, map) = &mut w.workers[*holder as usize];
                    w.index.apply_removed(*id, names, map);
                }
                Event::Clear(holder) => {
                    let (id, map) = &mut w.workers[*holder as usize];
                    w.index.apply_cleared(*id, map);
                }
            }
        }
    }

    fn sync(_: &mut Writer) {}

    fn find(r: &mut Reader, query: &Vec<u64>) -> usize {
        r.answer.clear();
        r.index.score_into(query, |c| *c, false, |worker, depth| r.answer.push((worker, depth)));
        r.answer.len()
    }

    fn digest(r: &Reader) -> u64 {
        r.answer
            .iter()
            .filter(|a| a.1 > 0)
            .fold(0, |sum, a| sum.wrapping_add(digest(r.holders[&a.0], a.1)))
    }

    fn touch(query: &Vec<u64>) -> u64 {
        query.iter().fold(0, |a, w| a.wrapping_add(*w))
    }
}

fn main() {
    drive::main::<Chain>(std::env::args().skip(1));
}
