//go:build !purego && !race

#include "textflag.h"

// func agreeEights(a *atomic.Uint64, b *uint64, n int) int
//
// Eight words of each a turn. A load of sixteen bytes that lie in one line of memory
// sees whole words, and loads after it see no less than it has: that is what a walk
// needs of contents, which it believes once the version after them is as before.
TEXT ·agreeEights(SB), NOSPLIT, $0-32
	MOVQ a+0(FP), SI
	MOVQ b+8(FP), DI
	MOVQ n+16(FP), CX
	XORL AX, AX
	SHRQ $3, CX
	JZ   done

next:
	MOVOU    (SI)(AX*8), X0
	MOVOU    16(SI)(AX*8), X1
	MOVOU    32(SI)(AX*8), X2
	MOVOU    48(SI)(AX*8), X3
	MOVOU    (DI)(AX*8), X4
	MOVOU    16(DI)(AX*8), X5
	MOVOU    32(DI)(AX*8), X6
	MOVOU    48(DI)(AX*8), X7
	PCMPEQL  X4, X0
	PCMPEQL  X5, X1
	PCMPEQL  X6, X2
	PCMPEQL  X7, X3
	PAND     X1, X0
	PAND     X3, X2
	PAND     X2, X0
	PMOVMSKB X0, DX
	CMPL     DX, $0xffff
	JNE      done
	ADDQ     $8, AX
	DECQ     CX
	JNZ      next

done:
	MOVQ AX, ret+24(FP)
	RET
