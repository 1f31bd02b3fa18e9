//go:build !purego && !race

#include "textflag.h"

// func fillPlain(dst *atomic.Uint64, src *uint64, n, stride int)
//
// The barrier keeps these stores behind those before the call: a run that is
// used again must show its new version to whoever sees new contents.
TEXT ·fillPlain(SB), NOSPLIT, $0-32
	MOVD dst+0(FP), R0
	MOVD src+8(FP), R1
	MOVD n+16(FP), R2
	MOVD stride+24(FP), R3
	LSL  $3, R3, R3
	CMP  $0, R2
	BLE  done
	DMB  $0xa // ISHST

next:
	MOVD (R1), R4
	ADD  R3, R1, R1
	MOVD.P R4, 8(R0)
	SUBS $1, R2
	BNE  next

done:
	RET

// func fetchLines(at *uintptr, n int)
TEXT ·fetchLines(SB), NOSPLIT, $0-16
	MOVD at+0(FP), R0
	MOVD n+8(FP), R1
	CMP  $0, R1
	BLE  fetched

fetch:
	MOVD.P 8(R0), R2
	PRFM (R2), PLDL1KEEP
	SUBS $1, R1
	BNE  fetch

fetched:
	RET
