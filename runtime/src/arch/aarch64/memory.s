// memcpy, memmove, memset, memcmp, bcmp and sums for components, most of which have no vector
// registers: pairs of general registers, 64 bytes per round, or 256. Where culm_has_vectors is 1,
// memcpy has four vector registers in place of four pairs, and rounds of 512 bytes too. From 8 bytes
// on nothing goes byte by byte: what is left over is covered by accesses that overlap others. Normal
// memory allows unaligned accesses (Arm ARM B2.8.2); none of this is for device memory.

    .section .text.memory, "ax", %progbits

// x0 destination (returned), x1 source, x2 length. Keeps x18 and up.
// culm_copy is memcpy by a name of which the compiler assumes nothing: for memory that others
// change meanwhile.
    .globl memcpy
    .globl culm_copy
    .type memcpy, %function
    .type culm_copy, %function
    .p2align 6
memcpy:
culm_copy:
    add     x4, x1, x2                  // ends of source and destination
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    .Lcopy_below_16
    cmp     x2, #64
    b.hi    .Lcopy_above_64

// 16 to 64 bytes: all is loaded before anything is stored, so that memmove can use it too.
.Lcopy_16_to_64:
    ldp     x6, x7, [x1]
    ldp     x8, x9, [x4, #-16]
    cmp     x2, #32
    b.ls    .Lcopy_16_to_32
    ldp     x10, x11, [x1, #16]
    ldp     x12, x13, [x4, #-32]
    stp     x10, x11, [x0, #16]
    stp     x12, x13, [x5, #-32]
.Lcopy_16_to_32:
    stp     x6, x7, [x0]
    stp     x8, x9, [x5, #-16]
    ret

// Below 16 bytes, for memmove too.
.Lcopy_below_16:
    cmp     x2, #8
    b.lo    .Lcopy_below_8
    ldr     x6, [x1]
    ldr     x7, [x4, #-8]
    str     x6, [x0]
    str     x7, [x5, #-8]
    ret
.Lcopy_below_8:
    cmp     x2, #4
    b.lo    .Lcopy_below_4
    ldr     w6, [x1]
    ldr     w7, [x4, #-4]
    str     w6, [x0]
    str     w7, [x5, #-4]
    ret
.Lcopy_below_4:                         // first, middle and last byte are all there are
    cbz     x2, .Lcopy_done
    lsr     x3, x2, #1
    ldrb    w6, [x1]
    ldrb    w7, [x1, x3]
    ldrb    w8, [x4, #-1]
    strb    w6, [x0]
    strb    w7, [x0, x3]
    strb    w8, [x5, #-1]
.Lcopy_done:
    ret

// The last 1 to 64 bytes are left to the tail, which copies exactly 64, counted from the end. Where
// there are many, 256 or 512 at a time.
.Lcopy_above_64:
    mov     x3, x0
    .if culm_has_vectors
    subs    x6, x2, #576
    b.ls    .Lcopy_few
.Lcopy_long_round:                      // V8 to V15 are the caller's (AAPCS64)
    ld1     {v0.2d-v3.2d}, [x1], #64
    ld1     {v4.2d-v7.2d}, [x1], #64
    ld1     {v16.2d-v19.2d}, [x1], #64
    ld1     {v20.2d-v23.2d}, [x1], #64
    st1     {v0.2d-v3.2d}, [x3], #64
    st1     {v4.2d-v7.2d}, [x3], #64
    st1     {v16.2d-v19.2d}, [x3], #64
    st1     {v20.2d-v23.2d}, [x3], #64
    ld1     {v0.2d-v3.2d}, [x1], #64
    ld1     {v4.2d-v7.2d}, [x1], #64
    ld1     {v16.2d-v19.2d}, [x1], #64
    ld1     {v20.2d-v23.2d}, [x1], #64
    subs    x6, x6, #512
    st1     {v0.2d-v3.2d}, [x3], #64
    st1     {v4.2d-v7.2d}, [x3], #64
    st1     {v16.2d-v19.2d}, [x3], #64
    st1     {v20.2d-v23.2d}, [x3], #64
    b.hi    .Lcopy_long_round
    add     x2, x6, #576
.Lcopy_few:
    cmp     x2, #320
    b.ls    .Lcopy_round
    ld1     {v0.2d-v3.2d}, [x1], #64
    ld1     {v4.2d-v7.2d}, [x1], #64
    ld1     {v16.2d-v19.2d}, [x1], #64
    ld1     {v20.2d-v23.2d}, [x1], #64
    sub     x2, x2, #256
    st1     {v0.2d-v3.2d}, [x3], #64
    st1     {v4.2d-v7.2d}, [x3], #64
    st1     {v16.2d-v19.2d}, [x3], #64
    st1     {v20.2d-v23.2d}, [x3], #64
.Lcopy_round:
    ld1     {v0.2d-v3.2d}, [x1], #64
    sub     x2, x2, #64
    st1     {v0.2d-v3.2d}, [x3], #64
    cmp     x2, #64
    b.hi    .Lcopy_round
    sub     x4, x4, #64
    sub     x5, x5, #64
    ld1     {v0.2d-v3.2d}, [x4]
    st1     {v0.2d-v3.2d}, [x5]
    .else
    cmp     x2, #320
    b.ls    .Lcopy_round
.Lcopy_long_round:
    ldp     x6, x7, [x1], #256
    ldp     x8, x9, [x1, #-240]
    ldp     x10, x11, [x1, #-224]
    ldp     x12, x13, [x1, #-208]
    stp     x6, x7, [x3], #256
    stp     x8, x9, [x3, #-240]
    stp     x10, x11, [x3, #-224]
    stp     x12, x13, [x3, #-208]
    ldp     x6, x7, [x1, #-192]
    ldp     x8, x9, [x1, #-176]
    ldp     x10, x11, [x1, #-160]
    ldp     x12, x13, [x1, #-144]
    stp     x6, x7, [x3, #-192]
    stp     x8, x9, [x3, #-176]
    stp     x10, x11, [x3, #-160]
    stp     x12, x13, [x3, #-144]
    ldp     x6, x7, [x1, #-128]
    ldp     x8, x9, [x1, #-112]
    ldp     x10, x11, [x1, #-96]
    ldp     x12, x13, [x1, #-80]
    stp     x6, x7, [x3, #-128]
    stp     x8, x9, [x3, #-112]
    stp     x10, x11, [x3, #-96]
    stp     x12, x13, [x3, #-80]
    ldp     x6, x7, [x1, #-64]
    ldp     x8, x9, [x1, #-48]
    ldp     x10, x11, [x1, #-32]
    ldp     x12, x13, [x1, #-16]
    stp     x6, x7, [x3, #-64]
    stp     x8, x9, [x3, #-48]
    stp     x10, x11, [x3, #-32]
    stp     x12, x13, [x3, #-16]
    sub     x2, x2, #256
    cmp     x2, #320
    b.hi    .Lcopy_long_round
.Lcopy_round:
    ldp     x6, x7, [x1], #64
    ldp     x8, x9, [x1, #-48]
    ldp     x10, x11, [x1, #-32]
    ldp     x12, x13, [x1, #-16]
    stp     x6, x7, [x3], #64
    stp     x8, x9, [x3, #-48]
    stp     x10, x11, [x3, #-32]
    stp     x12, x13, [x3, #-16]
    sub     x2, x2, #64
    cmp     x2, #64
    b.hi    .Lcopy_round
    ldp     x6, x7, [x4, #-64]
    ldp     x8, x9, [x4, #-48]
    ldp     x10, x11, [x4, #-32]
    ldp     x12, x13, [x4, #-16]
    stp     x6, x7, [x5, #-64]
    stp     x8, x9, [x5, #-48]
    stp     x10, x11, [x5, #-32]
    stp     x12, x13, [x5, #-16]
    .endif
    ret
    .size memcpy, . - memcpy
    .size culm_copy, . - culm_copy

// x0 destination (returned), x1 source, x2 length; the two may overlap.
    .globl memmove
    .type memmove, %function
    .p2align 6
memmove:
    sub     x3, x0, x1
    cmp     x3, x2                      // unsigned: the destination does not begin within the source ...
    b.lo    .Lmove_down
    neg     x3, x3
    cmp     x3, x2                      // ... nor the source within the destination
    b.hs    memcpy
    add     x4, x1, x2
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    .Lcopy_below_16
    cmp     x2, #64
    b.ls    .Lcopy_16_to_64

// The destination is below the source: upwards. The last 64 bytes of the source are read before a
// store reaches them.
    mov     x3, x0
    ldp     x10, x11, [x4, #-64]
    ldp     x12, x13, [x4, #-48]
    ldp     x14, x15, [x4, #-32]
    ldp     x16, x17, [x4, #-16]
.Lmove_up_round:
    ldp     x6, x7, [x1], #64
    ldp     x8, x9, [x1, #-48]
    stp     x6, x7, [x3], #64
    stp     x8, x9, [x3, #-48]
    ldp     x6, x7, [x1, #-32]
    ldp     x8, x9, [x1, #-16]
    stp     x6, x7, [x3, #-32]
    stp     x8, x9, [x3, #-16]
    sub     x2, x2, #64
    cmp     x2, #64
    b.hi    .Lmove_up_round
    stp     x10, x11, [x5, #-64]
    stp     x12, x13, [x5, #-48]
    stp     x14, x15, [x5, #-32]
    stp     x16, x17, [x5, #-16]
    ret

// The destination is above the source, or the same: downwards, the first 64 bytes of the source
// read beforehand.
.Lmove_down:
    add     x4, x1, x2
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    .Lcopy_below_16
    cmp     x2, #64
    b.ls    .Lcopy_16_to_64
    ldp     x10, x11, [x1]
    ldp     x12, x13, [x1, #16]
    ldp     x14, x15, [x1, #32]
    ldp     x16, x17, [x1, #48]
.Lmove_down_round:
    ldp     x6, x7, [x4, #-16]
    ldp     x8, x9, [x4, #-32]
    stp     x6, x7, [x5, #-16]
    stp     x8, x9, [x5, #-32]
    ldp     x6, x7, [x4, #-48]
    ldp     x8, x9, [x4, #-64]!
    stp     x6, x7, [x5, #-48]
    stp     x8, x9, [x5, #-64]!
    sub     x2, x2, #64
    cmp     x2, #64
    b.hi    .Lmove_down_round
    stp     x10, x11, [x0]
    stp     x12, x13, [x0, #16]
    stp     x14, x15, [x0, #32]
    stp     x16, x17, [x0, #48]
    ret
    .size memmove, . - memmove

// x0 destination (returned), x1 byte, x2 length. culm_clear: x0 destination, x1 length.
    .globl memset
    .globl culm_clear
    .type memset, %function
    .type culm_clear, %function
    .p2align 6
culm_clear:
    mov     x2, x1
    mov     x1, xzr
memset:
    and     x1, x1, #0xff               // the byte, eight times
    orr     x1, x1, x1, lsl #8
    orr     x1, x1, x1, lsl #16
    orr     x1, x1, x1, lsl #32
    add     x5, x0, x2
    cmp     x2, #16
    b.lo    .Lset_below_16
    cmp     x2, #64
    b.hi    .Lset_above_64
    stp     x1, x1, [x0]
    stp     x1, x1, [x5, #-16]
    cmp     x2, #32
    b.ls    .Lset_done
    stp     x1, x1, [x0, #16]
    stp     x1, x1, [x5, #-32]
.Lset_done:
    ret
.Lset_below_16:
    cmp     x2, #8
    b.lo    .Lset_below_8
    str     x1, [x0]
    str     x1, [x5, #-8]
    ret
.Lset_below_8:
    cmp     x2, #4
    b.lo    .Lset_below_4
    str     w1, [x0]
    str     w1, [x5, #-4]
    ret
.Lset_below_4:
    cbz     x2, .Lset_done
    lsr     x3, x2, #1
    strb    w1, [x0]
    strb    w1, [x0, x3]
    strb    w1, [x5, #-1]
    ret
.Lset_above_64:
    mov     x3, x0
.Lset_round:
    stp     x1, x1, [x3], #64
    stp     x1, x1, [x3, #-48]
    stp     x1, x1, [x3, #-32]
    stp     x1, x1, [x3, #-16]
    sub     x2, x2, #64
    cmp     x2, #64
    b.hi    .Lset_round
    stp     x1, x1, [x5, #-64]
    stp     x1, x1, [x5, #-48]
    stp     x1, x1, [x5, #-32]
    stp     x1, x1, [x5, #-16]
    ret
    .size memset, . - memset
    .size culm_clear, . - culm_clear

// x0, x1 the two, x2 length. Returns less than, equal to or greater than 0 in w0.
    .globl memcmp
    .globl bcmp
    .type memcmp, %function
    .type bcmp, %function
    .p2align 6
memcmp:
bcmp:
    add     x4, x0, x2                  // ends
    add     x5, x1, x2
    cmp     x2, #8
    b.lo    .Lcompare_below_8
    cmp     x2, #16
    b.ls    .Lcompare_tail
.Lcompare_round:
    ldp     x6, x7, [x0], #16
    ldp     x8, x9, [x1], #16
    cmp     x6, x8
    ccmp    x7, x9, #0, eq
    b.ne    .Lcompare_pairs
    sub     x2, x2, #16
    cmp     x2, #16
    b.hi    .Lcompare_round
    ldp     x6, x7, [x4, #-16]          // the last 16, some of them perhaps a second time
    ldp     x8, x9, [x5, #-16]
    cmp     x6, x8
    ccmp    x7, x9, #0, eq
    b.eq    .Lcompare_equal
.Lcompare_pairs:
    cmp     x6, x8
    b.ne    .Lcompare_first
    b       .Lcompare_second
.Lcompare_tail:                         // 8 to 16 bytes
    ldr     x6, [x0]
    ldr     x8, [x1]
    cmp     x6, x8
    b.ne    .Lcompare_first
    ldr     x7, [x4, #-8]
    ldr     x9, [x5, #-8]
.Lcompare_second:
    mov     x6, x7
    mov     x8, x9
.Lcompare_first:                        // as big-endian numbers they compare as their bytes do
    rev     x6, x6
    rev     x8, x8
    cmp     x6, x8
    cset    w0, hi
    csinv   w0, w0, wzr, hs
    ret
.Lcompare_below_8:
    cmp     x2, #4
    b.lo    .Lcompare_below_4
    ldr     w6, [x0]
    ldr     w8, [x1]
    ldr     w7, [x4, #-4]
    ldr     w9, [x5, #-4]
    cmp     x6, x8
    b.ne    .Lcompare_first
    b       .Lcompare_second
.Lcompare_below_4:
    cbz     x2, .Lcompare_equal
    ldrb    w6, [x0], #1
    ldrb    w8, [x1], #1
    sub     x2, x2, #1
    cmp     w6, w8
    b.eq    .Lcompare_below_4
    sub     w0, w6, w8
    ret
.Lcompare_equal:
    mov     w0, wzr
    ret
    .size memcmp, . - memcmp
    .size bcmp, . - bcmp

// x0 first byte, x1 length. Returns in x0 a one's-complement sum of the bytes as they lie in memory
// (RFC 1071): a number that is that of the half words, once it is folded. A last byte that has none
// beside it counts as the lower half of one. In a section of its own: few components have it.
    .section .text.sum, "ax", %progbits
    .globl culm_sum
    .type culm_sum, %function
    .p2align 6
culm_sum:
    .if culm_has_vectors
    movi    v0.2d, #0                   // halves of double words in lanes of 64 bits: no carry
    movi    v1.2d, #0
    subs    x2, x1, #256
    b.lo    .Lsum_below_256
.Lsum_round:
    ld1     {v4.4s-v7.4s}, [x0], #64
    ld1     {v16.4s-v19.4s}, [x0], #64
    ld1     {v20.4s-v23.4s}, [x0], #64
    ld1     {v24.4s-v27.4s}, [x0], #64
    uadalp  v0.2d, v4.4s
    uadalp  v1.2d, v5.4s
    uadalp  v0.2d, v6.4s
    uadalp  v1.2d, v7.4s
    uadalp  v0.2d, v16.4s
    uadalp  v1.2d, v17.4s
    uadalp  v0.2d, v18.4s
    uadalp  v1.2d, v19.4s
    uadalp  v0.2d, v20.4s
    uadalp  v1.2d, v21.4s
    uadalp  v0.2d, v22.4s
    uadalp  v1.2d, v23.4s
    uadalp  v0.2d, v24.4s
    uadalp  v1.2d, v25.4s
    uadalp  v0.2d, v26.4s
    uadalp  v1.2d, v27.4s
    subs    x2, x2, #256
    b.hs    .Lsum_round
.Lsum_below_256:                        // what is left is the lowest 8 bits of the length
    tbz     x1, #7, .Lsum_below_128
    ld1     {v4.4s-v7.4s}, [x0], #64
    ld1     {v16.4s-v19.4s}, [x0], #64
    uadalp  v0.2d, v4.4s
    uadalp  v1.2d, v5.4s
    uadalp  v0.2d, v6.4s
    uadalp  v1.2d, v7.4s
    uadalp  v0.2d, v16.4s
    uadalp  v1.2d, v17.4s
    uadalp  v0.2d, v18.4s
    uadalp  v1.2d, v19.4s
.Lsum_below_128:
    tbz     x1, #6, .Lsum_below_64
    ld1     {v4.4s-v7.4s}, [x0], #64
    uadalp  v0.2d, v4.4s
    uadalp  v1.2d, v5.4s
    uadalp  v0.2d, v6.4s
    uadalp  v1.2d, v7.4s
.Lsum_below_64:
    tbz     x1, #5, .Lsum_below_32
    ld1     {v4.4s-v5.4s}, [x0], #32
    uadalp  v0.2d, v4.4s
    uadalp  v1.2d, v5.4s
.Lsum_below_32:
    tbz     x1, #4, .Lsum_below_16
    ldr     q4, [x0], #16
    uadalp  v1.2d, v4.4s
.Lsum_below_16:
    tbz     x1, #3, .Lsum_below_8
    ldr     d4, [x0], #8                // the upper half of the register becomes 0
    uadalp  v0.2d, v4.4s
.Lsum_below_8:
    add     v0.2d, v0.2d, v1.2d
    addp    d0, v0.2d
    fmov    x2, d0
    .else
    mov     x2, xzr
    lsr     x3, x1, #8
    cbz     x3, .Lsum_few
    adds    x2, x2, xzr                 // no carry yet; what counts rounds leaves it alone
.Lsum_long_round:
    add     x0, x0, #256
    .irp    at, -256, -192, -128, -64
    ldp     x6, x7, [x0, #\at]
    ldp     x8, x9, [x0, #\at + 16]
    ldp     x10, x11, [x0, #\at + 32]
    ldp     x12, x13, [x0, #\at + 48]
    .irp    word, x6, x7, x8, x9, x10, x11, x12, x13
    adcs    x2, x2, \word
    .endr
    .endr
    sub     x3, x3, #1
    cbnz    x3, .Lsum_long_round
    adc     x2, x2, xzr                 // after a carry it is below its maximum
.Lsum_few:
    ubfx    x3, x1, #4, #4
    cbz     x3, .Lsum_below_16
    adds    x2, x2, xzr
.Lsum_round:
    ldp     x6, x7, [x0], #16
    adcs    x2, x2, x6
    adcs    x2, x2, x7
    sub     x3, x3, #1
    cbnz    x3, .Lsum_round
    adc     x2, x2, xzr
.Lsum_below_16:
    tbz     x1, #3, .Lsum_below_8
    ldr     x6, [x0], #8
    adds    x2, x2, x6
    adc     x2, x2, xzr
.Lsum_below_8:
    .endif
    ands    x3, x1, #7
    b.eq    .Lsum_end
    mov     x7, xzr                     // what is left in one double word, in any order: no carry
    tbz     x1, #2, .Lsum_below_4
    ldr     w7, [x0], #4
.Lsum_below_4:
    tbz     x1, #1, .Lsum_below_2
    ldrh    w6, [x0], #2
    add     x7, x7, x6
.Lsum_below_2:
    tbz     x1, #0, .Lsum_rest
    ldrb    w6, [x0]
    add     x7, x7, x6
.Lsum_rest:
    adds    x2, x2, x7
    adc     x2, x2, xzr
.Lsum_end:
    mov     x0, x2
    ret
    .size culm_sum, . - culm_sum
