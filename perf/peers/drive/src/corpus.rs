//! The reader of a corpus: the format is described in `perf/corpus/doc.go`.

use std::fs;

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Query,
    Store,
    Remove,
    Clear,
}

/// One operation. `words` are contents of a query, pairs of name and content of
/// a store, names of a remove.
pub struct Op<'a> {
    pub nanos: u64,
    pub holder: u32,
    pub kind: Kind,
    pub tier: u8,
    /// Of a store: 1 nobody holds any of the blocks, 2 others hold all, 3 some.
    pub class: u8,
    pub parent: Option<u64>,
    pub words: &'a [u64],
}

impl Op<'_> {
    pub fn blocks(&self) -> usize {
        if self.kind == Kind::Store { self.words.len() / 2 } else { self.words.len() }
    }
}

/// The right answer of a query, on any tier.
pub struct Answer {
    pub digest: u64,
    pub holders: u32,
}

pub const PRIVATE: u64 = 1;
pub const COPIES: u64 = 2;
pub const HOLES: u64 = 4;
pub const TIERS: u64 = 8;
pub const EQUAL: u64 = 16;
pub const CLEARS: u64 = 32;

/// The names of factors.
pub fn names(factors: u64) -> String {
    let all = ["private", "copies", "holes", "tiers", "equal", "clears"];
    let named: Vec<&str> = all.iter().enumerate().filter(|(i, _)| factors >> i & 1 != 0).map(|(_, n)| *n).collect();
    named.join(",")
}

pub struct Header {
    pub name: String,
    pub unit: u64,
    pub holders: u32,
    pub factors: u64,
}

pub struct Totals {
    pub blocks: u64,
    pub ops: u64,
    pub nanos: u64,
    pub left: u64,
    pub checksum: u64,
}

/// A whole file in memory, its checksums compared.
pub struct File {
    words: Vec<u64>,
    groups: Vec<usize>,
    pub header: Header,
    pub totals: Totals,
}

fn checksum(mut c: u64, words: &[u64]) -> u64 {
    for w in words {
        c = (c ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        c ^= c >> 32;
    }
    c
}

/// What one holder of a depth above 0 adds to the digest of an answer.
pub fn digest(holder: u32, depth: u32) -> u64 {
    let mut x = ((u64::from(holder) << 32) + u64::from(depth)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const HEADER: usize = 32;
const GROUP: usize = 8;
const TRAILER: usize = 16;

/// The five parts of a group: queries, stores, removes, answers, operations.
fn parts(head: &[u64]) -> [usize; 5] {
    [head[1], 2 * head[2], head[3], 3 * head[4], 4 * head[5]].map(|n| n as usize)
}

pub fn read(name: &str) -> Result<File, String> {
    let bytes = fs::read(name).map_err(|e| format!("{name}: {e}"))?;
    let (chunks, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return Err(format!("{name}: {} bytes are no whole words", bytes.len()));
    }
    let words: Vec<u64> = chunks.iter().map(|c| u64::from_le_bytes(*c)).collect();
    drop(bytes);
    let cut = || format!("{name}: the file ends before its trailer");
    let head = words.get(..HEADER).ok_or_else(cut)?;
    if head[0] != u64::from_le_bytes(*b"CAIRNCRP") || head[1] != 1 || head[31] != checksum(0, &head[..31]) {
        return Err(format!("{name}: no corpus of version 1"));
    }
    let title: Vec<u8> = head[12..20].iter().flat_map(|w| w.to_le_bytes()).collect();
    let header = Header {
        name: String::from_utf8_lossy(&title).trim_end_matches('\0').to_owned(),
        unit: head[2],
        holders: head[3] as u32,
        factors: head[4],
    };
    let mut sum = checksum(0, &head[31..]);
    let mut groups = Vec::new();
    let mut at = HEADER;
    loop {
        let head = words.get(at..at + GROUP).ok_or_else(cut)?;
        if head[0] != u64::from_le_bytes(*b"CAIRNGRP") {
            break;
        }
        let size = parts(head).iter().sum::<usize>();
        let body = words.get(at + GROUP..at + GROUP + size).ok_or_else(cut)?;
        if checksum(checksum(0, &head[..7]), body) != head[7] {
            return Err(format!("{name}: group {} has another checksum", groups.len()));
        }
        sum = checksum(sum, &head[7..]);
        groups.push(at);
        at += GROUP + size;
    }
    let end = words.get(at..at + TRAILER).ok_or_else(cut)?;
    if end[0] != u64::from_le_bytes(*b"CAIRNEND") || end[14] != sum || end[15] != checksum(0, &end[..15]) {
        return Err(format!("{name}: the trailer is wrong"));
    }
    let totals = Totals {
        blocks: end[5] + end[6] + end[7],
        ops: end[1] + end[2] + end[3] + end[4],
        nanos: end[8],
        left: end[10],
        checksum: end[14],
    };
    Ok(File { words, groups, header, totals })
}

impl File {
    /// All operations in order, and the answers of the queries among them.
    pub fn ops(&self) -> (Vec<Op<'_>>, Vec<Answer>) {
        let mut ops = Vec::with_capacity(self.totals.ops as usize);
        let mut answers = Vec::new();
        for &at in &self.groups {
            let sizes = parts(&self.words[at..]);
            let mut rest = &self.words[at + GROUP..];
            let [queries, stores, removes, right, list] = sizes.map(|n| {
                let (part, behind) = rest.split_at(n);
                rest = behind;
                part
            });
            for a in right.chunks_exact(3) {
                answers.push(Answer { digest: a[0], holders: a[2] as u32 });
            }
            for w in list.chunks_exact(4) {
                let (from, n) = (w[3] as u32 as usize, (w[3] >> 32) as usize);
                let (kind, words) = match (w[1] >> 32) as u8 {
                    0 => (Kind::Query, &queries[from..from + n]),
                    1 => (Kind::Store, &stores[2 * from..2 * (from + n)]),
                    2 => (Kind::Remove, &removes[from..from + n]),
                    _ => (Kind::Clear, &queries[..0]),
                };
                ops.push(Op {
                    nanos: w[0],
                    holder: w[1] as u32,
                    kind,
                    tier: (w[1] >> 40) as u8,
                    class: (w[1] >> 49 & 3) as u8,
                    parent: (w[1] >> 48 & 1 != 0).then_some(w[2]),
                    words,
                });
            }
        }
        (ops, answers)
    }
}
