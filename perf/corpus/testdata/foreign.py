"""Writes foreign.crp: a corpus made from the description in doc.go alone.

Three holders, blocks of 16 tokens: a shared chain, a hole, a refill, a host
tier, a copy, a clear. Answers are written down by hand as (any tier, device).
"""
import struct
import sys

M = (1 << 64) - 1


def mix(x):
    x = (x + 0x9E3779B97F4A7C15) & M
    x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) & M
    x = ((x ^ x >> 27) * 0x94D049BB133111EB) & M
    return x ^ x >> 31


def checksum(c, words):
    for w in words:
        c = ((c ^ w) * 0x9E3779B97F4A7C15) & M
        c ^= c >> 32
    return c


def word(b):
    return int.from_bytes(b, "little")


def digest(depths):
    return sum(mix((h << 32) + d) for h, d in depths.items() if d) & M


queries, stores, removes, answers, ops = [], [], [], [], []
totals = dict(query=[0, 0], store=[0, 0], remove=[0, 0], clear=[0, 0])
KINDS = ["query", "store", "remove", "clear"]


def op(kind, holder, at, blocks, words, part, tier=0, parent=None, cls=0):
    totals[kind][0] += 1
    totals[kind][1] += blocks
    flags = (parent is not None) | cls << 1
    begin = len(part) // (2 if kind == "store" else 1) if part is not None else 0
    ops.extend([at, holder | KINDS.index(kind) << 32 | tier << 40 | flags << 48, parent or 0, begin | blocks << 32])
    if part is not None:
        part.extend(words)


def query(at, contents, any_tier, device):
    op("query", 0, at, len(contents), contents, queries)
    held = {h: d for h, d in any_tier.items() if d}
    answers.extend([digest(any_tier), digest(device), len(held) | max(held.values(), default=0) << 32])


def store(at, holder, pairs, cls, **more):
    op("store", holder, at, len(pairs), [w for p in pairs for w in p], stores, cls=cls, **more)


def remove(at, holder, names, **more):
    op("remove", holder, at, len(names), names, removes, **more)


NEW, KNOWN, MIXED = 1, 2, 3
path = [11, 12, 13, 14]
query(0, path, {}, {})
store(10, 0, [(0, 11), (1, 12), (2, 13)], NEW)                      # 0 is a name like any other
store(20, 1, [(101, 11), (102, 12), (103, 13), (104, 14)], MIXED)   # names of its own
query(30, path, {0: 3, 1: 4}, {0: 3, 1: 4})
remove(40, 1, [102])                                                # a hole
query(50, path, {0: 3, 1: 1}, {0: 3, 1: 1})
store(60, 1, [(102, 12)], KNOWN, parent=101)                        # refilled
store(70, 0, [(2, 13)], KNOWN, parent=1, tier=1)                    # on the host tier too
remove(80, 0, [2])                                                  # now there alone
query(90, path, {0: 3, 1: 4}, {0: 2, 1: 4})
store(100, 2, [(11, 11)], KNOWN)
store(110, 2, [(11, 11)], KNOWN)                                    # a copy
remove(120, 2, [11])
query(130, path[:1], {0: 1, 1: 1, 2: 1}, {0: 1, 1: 1, 2: 1})
op("clear", 0, 140, 0, [], None)
query(150, path, {1: 4, 2: 1}, {1: 4, 2: 1})

header = [word(b"CAIRNCRP"), 1, 16, 3, 1 | 2 | 4 | 8 | 32, 3, 4, 1, 7, 1, 1, 4]
name = b"foreign".ljust(64, b"\0")
header += [word(name[i:i + 8]) for i in range(0, 64, 8)]
header += [0] * (31 - len(header))
header.append(checksum(0, header))
total = checksum(0, header[31:])
group = [word(b"CAIRNGRP"), len(queries), len(stores) // 2, len(removes), len(answers) // 3, len(ops) // 4, 0]
body = queries + stores + removes + answers + ops
group.append(checksum(checksum(0, group), body))
total = checksum(total, group[7:])
end = [word(b"CAIRNEND")] + [totals[k][0] for k in KINDS] + [totals[k][1] for k in KINDS[:3]]
end += [150, 8, 5, 1, 0, 0, total]
end.append(checksum(0, end))
words = header + group + body + end
with open(sys.argv[1], "wb") as f:
    f.write(struct.pack(f"<{len(words)}Q", *words))
