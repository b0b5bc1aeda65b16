//! Firmware of several versions, and sources that run dry.

use super::*;

/// Firmware of these versions that has a source, which is dry the first `dry` times.
fn firmware(psci: u64, convention: u64, mut dry: usize) -> impl Firmware {
    const UNKNOWN: u64 = u64::MAX;
    let mut given = 0;
    move |function, [argument, ..]| match function {
        PSCI_VERSION => [psci, 0, 0, 0],
        PSCI_FEATURES if psci >= 0x1_0000 && argument == SMCCC_VERSION && convention != 0 => [0; 4],
        SMCCC_VERSION if convention != 0 => [convention, 0, 0, 0],
        TRNG_VERSION if convention >= 0x1_0001 => [0x1_0000, 0, 0, 0],
        TRNG_FEATURES if convention >= 0x1_0001 && argument == TRNG_RND64 => [0; 4],
        TRNG_RND64 if dry > 0 => {
            dry -= 1;
            [i64::from(NO_ENTROPY) as u64, 0, 0, 0]
        }
        TRNG_RND64 => {
            assert_eq!(argument, 128);
            given += 2;
            [0, 0, given, given - 1]
        }
        PSCI_FEATURES => [UNKNOWN, 0, 0, 0],
        // The answer of old firmware to a call that it does not know is not to be found
        // out.
        _ => panic!("function {function:#x} of firmware {psci:#x}, {convention:#x}"),
    }
}

#[test]
fn old_firmware_is_not_asked_for_what_it_does_not_know() {
    for (psci, convention) in [(2, 0), (0x1_0000, 0), (0x1_0001, 0x1_0000)] {
        assert!(!is_present(firmware(psci, convention, 0)), "{psci:#x}, {convention:#x}");
    }
    assert!(is_present(firmware(0x1_0001, 0x1_0002, 0)));
}

#[test]
fn a_seed_is_made_of_all_words() {
    assert_eq!(seed(firmware(0x1_0001, 0x1_0002, 0)), Some([1, 2, 3, 4]));
}

#[test]
fn a_source_that_is_dry_for_a_while_is_asked_again_but_not_for_ever() {
    assert!(seed(firmware(0x1_0001, 0x1_0002, MAX_POLLS - 1)).is_some());
    assert_eq!(seed(firmware(0x1_0001, 0x1_0002, usize::MAX)), None);
    assert_eq!(seed(|_, _| [-1_i64 as u64, 0, 0, 0]), None, "refused");
}
