//go:build !purego && !race

#include "go_asm.h"
#include "textflag.h"

// What Go code does for a name in a table of names, where one look at one line is
// all there is to it: see segment for how a line is made, and names_amd64.go for
// what these promise. In registers, all the way:
//
//	SI hash, R8 how many are left, R12 entry without its hash, R13 lineOnes,
//	R14 lineTaken, DI segment, DX line, R10 its first word, BX hash and then entry,
//	CX mark and then shifts
//
// TZCNT is BSF to processors that do not know it; of what is not 0 they say the same.

// Of the segment at DI: its words, how many they are, and its entries.
#define LINES segment_words(DI)
#define LEN (segment_words+8)(DI)
#define USED segment_used(DI)

#define BEGIN \
	MOVQ hashes+8(FP), SI                       \
	MOVQ n+16(FP), R8                           \
	MOVQ block+24(FP), R12                      \
	MOVQ $const_lineOnes, R13                   \
	MOVQ $const_lineTaken, R14

// DX = the line of the hash in BX; BX = the hash as entries have it, CX = those bits.
#define LINE \
	SHRQ $const_entryTag, BX                    \
	MOVQ BX, CX                                 \
	SHLQ $const_entryTag, BX                    \
	MOVQ LEN, AX                                \
	SHRQ $3, AX                                 \
	MULQ BX                                     \
	SHLQ $6, DX                                 \
	ADDQ LINES, DX

// CX = the mark of the hash; AX = not 0 at R14's bits if the line has that mark, the
// lowest of them being right.
#define MATCH \
	ANDL  $0x7f, CX                             \
	ORL   $0x80, CX                             \
	MOVQ  CX, R11                               \
	IMULQ R13, R11                              \
	XORQ  R10, R11                              \
	MOVQ  R11, AX                               \
	SUBQ  R13, AX                               \
	NOTQ  R11                                   \
	ANDQ  R11, AX

// The line at DX, with R10 for its first word, is full: pass it and all that are, up to
// one that is not. R11 = what is free there.
#define PASS(full) \
full:                                           \
	MOVQ BX, AX                                 \
	SHRQ $const_entryKind, AX                   \
	ANDL $7, AX                                 \
	ADDL $const_linePassed, AX                  \
	BTSQ AX, R10                                \
	MOVQ R10, (DX)                              \
	ADDQ $64, DX                                \
	MOVQ LEN, AX                                \
	SHLQ $3, AX                                 \
	ADDQ LINES, AX                              \
	CMPQ DX, AX                                 \
	CMOVQEQ LINES, DX                           \
	MOVQ (DX), R10                              \
	MOVQ R10, R11                               \
	NOTQ R11                                    \
	ANDQ R14, R11                               \
	JZ   full

// Put the entry BX with the mark CX into the first of the line's free slots R11.
#define INTO \
	TZCNTQ R11, R11                             \
	SUBQ $7, R11                                \
	MOVQ CX, AX                                 \
	MOVQ R11, CX                                \
	SHLQ CX, AX                                 \
	ORQ  AX, R10                                \
	MOVQ R10, (DX)                              \
	MOVQ BX, 8(DX)(R11*1)

// Put the entry of a name that is surely strange where it belongs, or leave. It is so
// if no entry of its kind has passed the line and none in it has its mark, or only one
// and that another hash; a full line is passed.
#define PUT(strange, full, room, out) \
	MOVQ (DX), R10                              \
	MOVQ CX, R11                                \
	SHRQ $(const_entryKind-const_entryTag), R11 \
	ANDL $7, R11                                \
	ADDL $const_linePassed, R11                 \
	BTQ  R11, R10                               \
	JCS  out                                    \
	MATCH                                       \
	ANDQ R14, AX                                \
	JZ   strange                                \
	TZCNTQ AX, R11                              \
	MOVQ 1(DX)(R11*1), R11                      \
	XORQ BX, R11                                \
	SHRQ $const_entryTag, R11                   \
	JZ   out                                    \
	LEAQ -1(AX), R11                            \
	TESTQ R11, AX                               \
	JNZ  out                                    \
strange:                                        \
	MOVQ R10, R11                               \
	NOTQ R11                                    \
	ANDQ R14, R11                               \
	JNZ  room                                   \
	PASS(full)                                  \
room:                                           \
	ORQ  R12, BX                                \
	INTO                                        \
	INCQ USED

// Take an entry out of the line, or leave.
#define TAKE(out) \
	MOVQ (DX), R10                              \
	MATCH                                       \
	ANDQ R14, AX                                \
	JZ   out                                    \
	TZCNTQ AX, CX                               \
	SUBQ $7, CX                                 \
	ORQ  R12, BX                                \
	CMPQ BX, 8(DX)(CX*1)                        \
	JNE  out                                    \
	MOVL $0xff, AX                              \
	SHLQ CX, AX                                 \
	NOTQ AX                                     \
	ANDQ AX, R10                                \
	MOVQ R10, (DX)                              \
	DECQ USED

#define NEXT(loop) \
	INCQ R12                                    \
	ADDQ $8, SI                                 \
	DECQ R8                                     \
	JNZ  loop

#define END \
	MOVQ n+16(FP), AX                           \
	SUBQ R8, AX                                 \
	MOVQ AX, ret+32(FP)                         \
	RET

// DI = the segment of the hash in BX; BX = what the segment knows of it.
#define SEGMENT \
	MOVQ BX, DI                                 \
	SHRQ $(64-const_nameCut), DI                \
	SHLQ $const_segmentShift, DI                \
	ADDQ s+0(FP), DI                            \
	SHLQ $const_nameCut, BX

// BX = the hash of the name at SI: see hashName.
#define HASH \
	MOVQ (SI), AX                               \
	XORQ R10, AX                                \
	MULQ R11                                    \
	XORQ DX, AX                                 \
	MOVQ AX, BX

#define ASKBEGIN \
	MOVQ seed+8(FP), R10                        \
	MOVQ names+16(FP), SI                       \
	MOVQ stride+24(FP), R9                      \
	MOVQ n+32(FP), R8                           \
	SHLQ $3, R9                                 \
	MOVQ $const_hashFactor, R11

// func putNames(s *segment, hashes *uint64, n int, block uint64) int
TEXT ·putNames(SB), NOSPLIT, $0-40
	BEGIN

put: // unless the segment is full, by five sevenths: see segment.full
	MOVQ  (SI), BX
	SEGMENT
	MOVQ  USED, AX
	LEAQ  8(AX*8), AX
	MOVQ  LEN, DX
	LEAQ  (DX)(DX*4), DX
	CMPQ  AX, DX
	JGT   putEnd
	LINE
	PUT(putStrange, putFull, putRoom, putEnd)
	NEXT(put)

putEnd:
	END

// func takeNames(s *segment, hashes *uint64, n int, block uint64) int
TEXT ·takeNames(SB), NOSPLIT, $0-40
	BEGIN

take: // unless the segment is sparse without the name: see sparse
	MOVQ   (SI), BX
	SEGMENT
	MOVQ   USED, AX
	SHLQ   $6, AX
	SUBQ   $64, AX
	IMUL3Q $7, LEN, DX
	CMPQ   AX, DX
	JLT    takeEnd
	LINE
	TAKE(takeEnd)
	NEXT(take)

takeEnd:
	END

// func putOwn(s *segment, hashes *uint64, n int, block uint64) int
TEXT ·putOwn(SB), NOSPLIT, $0-40
	BEGIN
	MOVQ s+0(FP), DI

own:
	MOVQ (SI), BX
	LINE
	PUT(ownStrange, ownFull, ownRoom, ownEnd)
	NEXT(own)

ownEnd:
	END

// func takeOwn(s *segment, hashes *uint64, n int, block uint64) int
TEXT ·takeOwn(SB), NOSPLIT, $0-40
	BEGIN
	MOVQ s+0(FP), DI

off:
	MOVQ (SI), BX
	LINE
	TAKE(offEnd)
	NEXT(off)

offEnd:
	END

// func askNames(s *segment, seed uint64, names *uint64, stride, n int)
TEXT ·askNames(SB), NOSPLIT, $0-40
	ASKBEGIN

ask:
	HASH
	SEGMENT
	LINE
	PREFETCHT0 (DX)
	ADDQ R9, SI
	DECQ R8
	JNZ  ask
	RET

// func askOwn(s *segment, seed uint64, names *uint64, stride, n int)
TEXT ·askOwn(SB), NOSPLIT, $0-40
	ASKBEGIN
	MOVQ s+0(FP), DI

askIt:
	HASH
	LINE
	PREFETCHT0 (DX)
	ADDQ R9, SI
	DECQ R8
	JNZ  askIt
	RET

// func spread(s *segment, old *uint64, n int) int
TEXT ·spread(SB), NOSPLIT, $0-32
	MOVQ s+0(FP), DI
	MOVQ old+8(FP), SI
	MOVQ n+16(FP), R8
	MOVQ $const_lineTaken, R14
	MOVQ LEN, R12
	SHRQ $3, R12
	XORQ R13, R13

line:
	MOVQ (SI), R9
	ANDQ R14, R9
	JZ   lineEnd

slot:
	TZCNTQ R9, R11
	MOVQ   1(SI)(R11*1), BX
	MOVQ   BX, AX
	SHRQ   $const_entryTag, AX
	MOVQ   AX, CX
	SHLQ   $const_entryTag, AX
	MULQ   R12
	SHLQ   $6, DX
	ADDQ   LINES, DX
	ANDL   $0x7f, CX
	ORL    $0x80, CX
	MOVQ   (DX), R10
	MOVQ   R10, R11
	NOTQ   R11
	ANDQ   R14, R11
	JNZ    spreadRoom
	PASS(spreadFull)

spreadRoom:
	INTO
	INCQ R13
	LEAQ -1(R9), AX
	ANDQ AX, R9
	JNZ  slot

lineEnd:
	ADDQ $64, SI
	DECQ R8
	JNZ  line
	MOVQ R13, ret+24(FP)
	RET
