//go:build !purego && !race

#include "textflag.h"

// tokenGroups and its way are described in groups.go.

// The top bit: no token of one byte, or no token at all.
DATA top<>+0(SB)/8, $0x8080808080808080
DATA top<>+8(SB)/8, $0x8080808080808080
DATA top<>+16(SB)/8, $0x8080808080808080
DATA top<>+24(SB)/8, $0x8080808080808080
GLOBL top<>(SB), RODATA|NOPTR, $32

// Adding up and then taking down away, both saturating, leaves the low four
// bits of 0xc0 to 0xcf, 0x0f of what is above and 0 of what is below.
DATA up<>+0(SB)/8, $0x3030303030303030
DATA up<>+8(SB)/8, $0x3030303030303030
DATA up<>+16(SB)/8, $0x3030303030303030
DATA up<>+24(SB)/8, $0x3030303030303030
GLOBL up<>(SB), RODATA|NOPTR, $32

// See up.
DATA down<>+0(SB)/8, $0xf0f0f0f0f0f0f0f0
DATA down<>+8(SB)/8, $0xf0f0f0f0f0f0f0f0
DATA down<>+16(SB)/8, $0xf0f0f0f0f0f0f0f0
DATA down<>+24(SB)/8, $0xf0f0f0f0f0f0f0f0
GLOBL down<>(SB), RODATA|NOPTR, $32

// By those four bits: 0x80 and the form of a header that begins a token (0xcc, 0xcd, 0xce).
DATA forms<>+0(SB)/8, $0x0000000000000000
DATA forms<>+8(SB)/8, $0x0083828100000000
DATA forms<>+16(SB)/8, $0x0000000000000000
DATA forms<>+24(SB)/8, $0x0083828100000000
GLOBL forms<>(SB), RODATA|NOPTR, $32

// By form: the bytes of a token. What is no token has a top bit, and so none.
DATA lengths<>+0(SB)/8, $0x0000000005030201
DATA lengths<>+8(SB)/8, $0x0000000000000000
DATA lengths<>+16(SB)/8, $0x0000000005030201
DATA lengths<>+24(SB)/8, $0x0000000000000000
GLOBL lengths<>(SB), RODATA|NOPTR, $32

// Plus an offset from each byte: an index into its own 16 bytes, or a top bit.
DATA near<>+0(SB)/8, $0x7776757473727170
DATA near<>+8(SB)/8, $0x7f7e7d7c7b7a7978
DATA near<>+16(SB)/8, $0x7776757473727170
DATA near<>+24(SB)/8, $0x7f7e7d7c7b7a7978
GLOBL near<>(SB), RODATA|NOPTR, $32

// The same for the 16 bytes behind.
DATA far<>+0(SB)/8, $0xf7f6f5f4f3f2f1f0
DATA far<>+8(SB)/8, $0xfffefdfcfbfaf9f8
DATA far<>+16(SB)/8, $0xf7f6f5f4f3f2f1f0
DATA far<>+24(SB)/8, $0xfffefdfcfbfaf9f8
GLOBL far<>(SB), RODATA|NOPTR, $32

// FORM makes of 32 bytes at an address what each of them is as the first byte of
// a token: its form, 0 to 3, or a top bit.
#define FORM(addr, K) \
	VMOVDQU  addr, Y0    \
	VPADDUSB Y14, Y0, Y1 \
	VPSUBUSB Y13, Y1, Y1 \
	VPSHUFB  Y1, Y12, Y1 \
	VPAND    Y15, Y0, Y0 \
	VPXOR    Y0, Y1, K

// FOLLOW makes of an offset for each of 32 bytes, 25 at most, the form of the
// byte that far behind it; their own forms are in Y4, those 16 bytes on in Y6.
#define FOLLOW(offset, K) \
	VPADDB  Y10, offset, Y1 \
	VPADDB  Y9, offset, Y2  \
	VPSHUFB Y1, Y4, Y1      \
	VPSHUFB Y2, Y6, Y2      \
	VPOR    Y1, Y2, K

// func tokenGroups(dst *uint32, n int, src *byte, left int, places *[64][16]byte) (tokens, size int)
TEXT ·tokenGroups(SB), 0, $2048-56
	MOVQ    dst+0(FP), DI
	MOVQ    n+8(FP), R10
	MOVQ    src+16(FP), SI
	MOVQ    left+24(FP), BX
	MOVQ    places+32(FP), R11
	MOVQ    DI, AX
	LEAQ    -16(DI)(R10*4), R10 // the last place with room for what a group writes
	VMOVDQU top<>(SB), Y15
	VMOVDQU up<>(SB), Y14
	VMOVDQU down<>(SB), Y13
	VMOVDQU forms<>(SB), Y12
	VMOVDQU lengths<>(SB), Y11
	VMOVDQU near<>(SB), Y10
	VMOVDQU far<>(SB), Y9

chunk:
	// R9 bytes, a multiple of 32 with 32 more behind them.
	LEAQ -32(BX), R9
	ANDQ $~31, R9
	JLE  done
	CMPQ R9, $1024
	JLE  look
	MOVQ $1024, R9

look:
	// For every byte, as if a group of three tokens began there: their forms at
	// 0(SP), the first lowest, or a top bit; and their size at 1024(SP).
	XORQ R8, R8
	FORM((SI), Y4)

	PCALIGN $32

ahead:
	FORM(32(SI)(R8*1), Y5)
	VPERM2I128 $0x21, Y5, Y4, Y6
	VPSHUFB    Y4, Y11, Y0
	FOLLOW(Y0, Y3)
	VPSHUFB    Y3, Y11, Y1
	VPADDB     Y0, Y1, Y0
	FOLLOW(Y0, Y7)
	VPSHUFB    Y7, Y11, Y1
	VPADDB     Y0, Y1, Y0
	VMOVDQU    Y0, 1024(SP)(R8*1)
	VPADDUSB   Y7, Y7, Y1
	VPADDUSB   Y1, Y1, Y1
	VPADDUSB   Y3, Y1, Y1
	VPADDUSB   Y1, Y1, Y1
	VPADDUSB   Y1, Y1, Y1
	VPADDUSB   Y4, Y1, Y1
	VMOVDQU    Y1, 0(SP)(R8*1)
	VMOVDQU    Y5, Y4
	ADDQ       $32, R8
	CMPQ       R8, R9
	JLT        ahead

	// R8 walks along the sizes; the payload lies R12 behind it.
	LEAQ 1024(SP), R8
	MOVQ SI, R12
	SUBQ R8, R12
	ADDQ R8, R9

	PCALIGN $32

group:
	CMPQ    DI, R10
	JHI     stop
	MOVBLZX (R8), DX
	MOVBLZX -1024(R8), CX
	VMOVDQU (R8)(R12*1), X0
	TESTB   CX, CX
	JS      stop
	SHLL    $4, CX
	ADDQ    DX, R8
	VPSHUFB (R11)(CX*1), X0, X0
	VMOVDQU X0, (DI)
	ADDQ    $12, DI
	CMPQ    R8, R9
	JLT     group

	ADDQ R12, R8
	SUBQ R8, SI
	ADDQ SI, BX
	MOVQ R8, SI
	JMP  chunk

stop:
	LEAQ (R8)(R12*1), SI

done:
	VZEROUPPER
	SUBQ AX, DI
	SHRQ $2, DI
	MOVQ DI, tokens+40(FP)
	SUBQ src+16(FP), SI
	MOVQ SI, size+48(FP)
	RET

// func avx2() bool
TEXT ·avx2(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	XORL AX, AX
	CPUID
	CMPL AX, $7
	JLT  no
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $(1<<27 | 1<<28), CX // the system saves registers, AVX
	CMPL CX, $(1<<27 | 1<<28)
	JNE  no
	XORL CX, CX
	XGETBV
	ANDL $6, AX               // of both widths
	CMPL AX, $6
	JNE  no
	MOVL $7, AX
	XORL CX, CX
	CPUID
	TESTL $(1<<5), BX
	JZ   no
	MOVB $1, ret+0(FP)

no:
	RET
