//! The smallest guest: an arm64 Image that uses each part of its machine once and says so on its
//! serial port.

/// Where the code begins, behind the header (Linux, Documentation/arch/arm64/booting.rst).
const HEADER: usize = 64;

/// The code, each word with its assembly. It says that it has begun, waits for the virtual timer,
/// interrupts itself, then has a second CPU begin, if it has one, to which it has sent an interrupt
/// before. That CPU says so and is off again. The first sends back what it receives, until that is
/// `q`, at which it switches itself off, `r`, at which it interrupts the CPU that is off and resets
/// itself, or `x`, at which it reads an address at which it has nothing.
#[rustfmt::skip]
const CODE: &[u32] = &[
    // X19: serial port.
    0xd2a12013, //     movz x19, #0x0900, lsl #16
    0x52806020, //     movz w0, #0x301
    0xb9003260, //     str w0, [x19, #0x30]
    0x10000c81, //     adr x1, hello
    0x9400005c, //     bl print
    // Interrupt controller: group 1 on; the timer's PPI on, of priority 0x80.
    0xd2a10014, //     movz x20, #0x0800, lsl #16
    0x52800040, //     movz w0, #2
    0xb9000280, //     str w0, [x20]
    0xd2a10174, //     movz x20, #0x080b, lsl #16
    0x52801000, //     movz w0, #0x80
    0x39106e80, //     strb w0, [x20, #0x41b]
    0x52a10000, //     movz w0, #0x0800, lsl #16
    0xb9010280, //     str w0, [x20, #0x100]
    0xd2801fe0, //     movz x0, #0xff
    0xd5184600, //     msr ICC_PMR_EL1, x0
    0xd2800020, //     movz x0, #1
    0xd518cce0, //     msr ICC_IGRPEN1_EL1, x0
    0xd5033fdf, //     isb
    // The timer goes off; masked, it ends WFI.
    0xd2900000, //     movz x0, #0x8000
    0xd51be300, //     msr CNTV_TVAL_EL0, x0
    0xd2800020, //     movz x0, #1
    0xd51be320, //     msr CNTV_CTL_EL0, x0
    0xd5033fdf, //     isb
    0xd503207f, // 1:  wfi
    0xd538cc15, //     mrs x21, ICC_IAR1_EL1
    0xf1006ebf, //     cmp x21, #27
    0x54ffffa1, //     b.ne 1b
    0xd51be33f, //     msr CNTV_CTL_EL0, xzr
    0xd518cc35, //     msr ICC_EOIR1_EL1, x21
    0x100009c1, //     adr x1, tick
    0x94000042, //     bl print
    // An interrupt to itself.
    0xd2a06000, //     movz x0, #0x0300, lsl #16
    0xb2400000, //     orr x0, x0, #1
    0xd518cba0, //     msr ICC_SGI1R_EL1, x0
    0xd5033fdf, //     isb
    0xd538cc15, // 2:  mrs x21, ICC_IAR1_EL1
    0xf1000ebf, //     cmp x21, #3
    0x54ffffc1, //     b.ne 2b
    0xd518cc35, //     msr ICC_EOIR1_EL1, x21
    0x10000961, //     adr x1, itself
    0x94000038, //     bl print
    // An interrupt to the second CPU, if there is one, which begins after it.
    0xd2a08000, //     movz x0, #0x0400, lsl #16
    0xb27f0000, //     orr x0, x0, #2
    0xd518cba0, //     msr ICC_SGI1R_EL1, x0
    0x52b88000, //     movz w0, #0xc400, lsl #16
    0x72800060, //     movk w0, #3
    0xd2800021, //     movz x1, #1
    0x10000422, //     adr x2, second
    0xd2800003, //     movz x3, #0
    0xd4000002, //     hvc #0
    // Echo until 'q' (off), 'r' (reset) or 'x' (an address where nothing is).
    0x52800200, //     movz w0, #0x10
    0xb9003a60, //     str w0, [x19, #0x38]
    0xd2a10014, //     movz x20, #0x0800, lsl #16
    0x52800040, //     movz w0, #2
    0xb9010680, //     str w0, [x20, #0x104]
    0xd503207f, // 3:  wfi
    0xb9401a60, // 4:  ldr w0, [x19, #0x18]
    0x37200160, //     tbnz w0, #4, 6f
    0xb9400276, //     ldr w22, [x19]
    0xb9000276, //     str w22, [x19]
    0x7101c6df, //     cmp w22, #113
    0x54000140, //     b.eq off
    0x7101cadf, //     cmp w22, #114
    0x54000160, //     b.eq reset
    0x7101e2df, //     cmp w22, #120
    0x54fffee1, //     b.ne 4b
    0xd2820000, //     movz x0, #0x1000
    0xf9400000, //     ldr x0, [x0]
    0xd538cc15, // 6:  mrs x21, ICC_IAR1_EL1
    0xd518cc35, //     msr ICC_EOIR1_EL1, x21
    0x17fffff1, //     b 3b
    // off:
    0x52b08000, //     movz w0, #0x8400, lsl #16
    0x72800100, //     movk w0, #8
    0xd4000002, //     hvc #0
    // reset:
    // An interrupt to the second CPU, which is off, if there is one.
    0xd2a06000, //     movz x0, #0x0300, lsl #16
    0xb27f0000, //     orr x0, x0, #2
    0xd518cba0, //     msr ICC_SGI1R_EL1, x0
    0x52b08000, //     movz w0, #0x8400, lsl #16
    0x72800120, //     movk w0, #9
    0xd4000002, //     hvc #0
    // second:
    0xd2a12013, //     movz x19, #0x0900, lsl #16
    0xd2801fe0, //     movz x0, #0xff
    0xd5184600, //     msr ICC_PMR_EL1, x0
    0xd2800020, //     movz x0, #1
    0xd518cce0, //     msr ICC_IGRPEN1_EL1, x0
    0xd5033fdf, //     isb
    0xd503207f, // 5:  wfi
    0xd538cc15, //     mrs x21, ICC_IAR1_EL1
    0xf10012bf, //     cmp x21, #4
    0x54ffffa1, //     b.ne 5b
    0x10000401, //     adr x1, sent
    0x94000005, //     bl print
    0xd518cc35, //     msr ICC_EOIR1_EL1, x21
    0x52b08000, //     movz w0, #0x8400, lsl #16
    0x72800040, //     movk w0, #2
    0xd4000002, //     hvc #0
    // print:
    0x38401420, //     ldrb w0, [x1], #1
    0x340000a0, //     cbz w0, 8f
    0xb9401a62, // 7:  ldr w2, [x19, #0x18]
    0x372fffe2, //     tbnz w2, #5, 7b
    0xb9000260, //     str w0, [x19]
    0x17fffffb, //     b print
    0xd65f03c0, // 8:  ret
];

/// Its words, one after the other; the code has their addresses.
const WORDS: [&[u8]; 4] = [
    b"tiny: hello\r\n",
    b"tiny: the timer went off\r\n",
    b"tiny: an interrupt to itself\r\n",
    b"tiny: an interrupt to the second\r\n",
];

/// Returns the Image.
pub fn image() -> Vec<u8> {
    const BRANCH_TO_CODE: u32 = 0x1400_0010;
    const LITTLE_ENDIAN_4K_ANYWHERE: u64 = 0b1010;
    let code = CODE.iter().flat_map(|word| word.to_le_bytes());
    let mut body: Vec<u8> = code.collect();
    for words in WORDS {
        body.extend(words);
        body.push(0);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    let mut image = vec![0; HEADER];
    image.extend(body);
    let size = image.len() as u64;
    let mut put = |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, &BRANCH_TO_CODE.to_le_bytes());
    put(16, &size.to_le_bytes());
    put(24, &LITTLE_ENDIAN_4K_ANYWHERE.to_le_bytes());
    put(56, b"ARM\x64");
    image
}
