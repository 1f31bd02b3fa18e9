//go:build !purego && !race

#include "textflag.h"

// func fillPlain(dst *atomic.Uint64, src *uint64, n, stride int)
//
// Stores become visible in program order here.
TEXT ·fillPlain(SB), NOSPLIT, $0-32
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ stride+24(FP), DX
	SHLQ $3, DX
	TESTQ CX, CX
	JLE  done

next:
	MOVQ (SI), AX
	MOVQ AX, (DI)
	ADDQ DX, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  next

done:
	RET

// func fetchLines(at *uintptr, n int)
TEXT ·fetchLines(SB), NOSPLIT, $0-16
	MOVQ at+0(FP), SI
	MOVQ n+8(FP), CX
	TESTQ CX, CX
	JLE  fetched

fetch:
	MOVQ (SI), AX
	PREFETCHT0 (AX)
	ADDQ $8, SI
	DECQ CX
	JNZ  fetch

fetched:
	RET
