//! What a monitor writes and what a processor says, with the answers that the manuals give.

use super::*;
use list_register::{GROUP, PENDING, PRIORITY, STATE, TELL_END};

const PHYSICAL: u64 = 1 << 61;

#[test]
fn a_monitor_chooses_only_what_is_its_own() {
    let all = u64::MAX << 32;
    let (first, second) = (STATE | GROUP | PRIORITY | 3, STATE | GROUP | PRIORITY | TELL_END | 33);
    assert_eq!(list_registers([all | 3, all | 33, 0]), [first, second, 0]);
    assert_eq!(list_registers([PENDING | PHYSICAL | 27 << 32 | 5, 0, 0]), [PENDING | 5, 0, 0]);
    assert_eq!(list_registers([PENDING | 1, PENDING | 26, PENDING | 1019]), [1, 26, 1019].map(|n| PENDING | n));
}

#[test]
fn a_list_register_that_would_be_unpredictable_is_empty() {
    assert_eq!(list_registers([0, PENDING | 27, PENDING | 1020]), [0; 3]);
    assert_eq!(list_registers([PENDING | 16, PENDING | 15, PENDING | 8192]), [0; 3]);
    assert_eq!(list_registers([0, 1 << 63 | 33, PENDING | 33]), [0, 1 << 63 | 33, 0]);
    assert_eq!(list_registers([0, PENDING | 33, PENDING | 1 << 31 | 33]), [0, PENDING | 33, 0]);
}

#[test]
fn an_interrupt_that_is_added_has_one_register_or_none() {
    const ACTIVE: u64 = 1 << 63;
    let (net, disk) = (PENDING | GROUP | 34, PENDING | GROUP | 35);
    assert_eq!(put_added([0, 0], net), Some([net, 0]));
    assert_eq!(put_added([net & !STATE, disk], net), Some([net, disk]), "it has ended");
    assert_eq!(put_added([disk, 0], net), Some([disk, net]));
    assert_eq!(put_added([disk, net ^ STATE], net), Some([disk, net | ACTIVE]), "the guest handles it");
    assert_eq!(put_added([disk, net], net), Some([disk, net]), "twice is once");
    assert_eq!(put_added([disk, net], PENDING | 33), None);
    assert_eq!(put_added([disk, TELL_END | 33], net), None, "its end is still to be told");
    assert_eq!(put_added([0, disk], ACTIVE | PHYSICAL | GROUP | 34), Some([net, disk]), "pending only");
    for nothing in [0, PENDING | 3, PENDING | 27, PENDING | 1020] {
        assert_eq!(put_added([0, disk], nothing), Some([0, disk]), "{nothing:#x}");
    }
}

#[test]
fn interrupts_that_are_generated_go_into_the_register_one_by_one() {
    const ACTIVE: u64 = 1 << 63;
    let put = |register, waiting| put_generated(register, waiting, SOFTWARE, [0x80; 2]);
    let pending = PENDING | GROUP;
    assert_eq!(put(0, 0), (0, 0));
    assert_eq!(put(TELL_END | 3, 0), (0, 0), "it has ended");
    assert_eq!(put(0, 1 << 9), (pending | 9, 0));
    // The first and the ninth are less urgent than others.
    assert_eq!(put(0, 0b1011), (pending | TELL_END | 1, 0b1001));
    assert_eq!(put(0, 1 << 8 | 1), (pending | 0x80 << 48 | TELL_END, 1 << 8));
    assert_eq!(put(ACTIVE | 3, 1 << 3 | 1 << 4), (ACTIVE | PENDING | TELL_END | 3, 1 << 4));
    assert_eq!(put(pending | TELL_END | 3, 1 << 3), (pending | 3, 0), "twice is once");
    assert_eq!(put(ACTIVE | 3, 1 << 4), (ACTIVE | TELL_END | 3, 1 << 4));
    let less_urgent = pending | 0x80 << 48 | 8;
    assert_eq!(put(less_urgent, 1 << 1), (pending | TELL_END | 1, 1 << 8), "a more urgent one takes its place");
    assert_eq!(put(pending | 1, 1 << 8), (pending | TELL_END | 1, 1 << 8), "a less urgent one does not");
    assert_eq!(put_generated(pending | 3, 0, 0, [0; 2]), (0, 1 << 3), "it was disabled before it was taken");
    assert_eq!(put_generated(0, 0b11, 0b10, [0; 2]), (pending | 1, 0b01), "the first is disabled");
    assert_eq!(put_generated(0, 1, 0, [0; 2]), (0, 1));
    assert_eq!(put_generated(0, u64::MAX, u64::MAX, [u64::MAX; 2]).0, pending | 0xff << 48 | TELL_END);
}

#[test]
fn a_guest_generates_interrupts_for_cpus_by_their_numbers() {
    // msr ICC_SGI1R_EL1, x5
    let write = 0x18 << 26 | 1 << 25 | 3 << 20 | 5 << 17 | 12 << 10 | 5 << 5 | 11 << 1;
    assert_eq!(generates(write), Some(5));
    assert_eq!(generates(write | 0x1f << 5), Some(31));
    for other in [write | 1, write ^ 1 << 17, write ^ 1 << 1, write ^ 1 << 14, 0x24 << 26 | write] {
        assert_eq!(generates(other), None, "{other:#x}");
    }
    let to = |cpus, to_others| Generated { number: 7, cpus, to_others };
    assert_eq!(generated(7 << 24 | 0b101), to(0b101, false));
    assert_eq!(generated(1 << 40 | 7 << 24 | 0b101), to(0b101, true));
    for elsewhere in [1 << 16, 1 << 32, 1 << 48, 1 << 44] {
        assert_eq!(generated(elsewhere | 7 << 24 | 0xffff), to(0, false), "{elsewhere:#x}");
    }
}

#[test]
fn a_wait_is_told_by_its_class() {
    assert_eq!(is_bounded_wait(0x01 << 26 | 1 << 25), Some(false));
    assert_eq!(is_bounded_wait(0x01 << 26 | 1 << 25 | 0b10), Some(true));
    assert_eq!(is_bounded_wait(0x16 << 26 | 1 << 25), None);
}

#[test]
fn an_instruction_has_four_bytes_or_two() {
    assert_eq!([0x24 << 26 | 1 << 25, 0x24 << 26].map(length), [4, 2]);
}

#[test]
fn what_is_not_of_this_exit_is_not_told() {
    let [data, instruction, call] = [0x24_u64, 0x20, 0x16].map(|class| class << 26);
    assert_eq!(cause(exit::EXCEPTION, data, 1, 2), [data, 1, 2]);
    assert_eq!(cause(exit::EXCEPTION, instruction, 1, 2), [instruction, 1, 2]);
    assert_eq!(cause(exit::EXCEPTION, data | 1 << 10, 1, 2), [data | 1 << 10, 0, 2]);
    assert_eq!(cause(exit::EXCEPTION, call, 1, 2), [call, 0, 0]);
    assert_eq!(cause(exit::STOPPED, data, 1, 2), [0; 3]);
    assert_eq!(cause(exit::MAINTENANCE, data, 1, 2), [0; 3]);
}
