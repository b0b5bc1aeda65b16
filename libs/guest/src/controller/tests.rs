use super::list_register::{ACTIVE, PENDING, TELL_END};
use super::registers::{BUSY, LAST, distributor, redistributor, register};
use super::*;
use culm_abi::guest::REDISTRIBUTOR_SIZE;

const LINE: u32 = 33;

/// With a group on, and the line of a device enabled; no CPU has an interrupt.
fn with(cpus: usize) -> Controller {
    let mut controller = Controller::new(cpus);
    controller.write_distributor(distributor::CTLR, 4, 0b10);
    controller.write_distributor(register::SET_ENABLE + 4, 4, 1 << (LINE - 32));
    (0..cpus).for_each(|cpu| _ = controller.offer(cpu));
    controller
}

/// With one CPU.
fn controller() -> Controller {
    with(1)
}

/// Routes the line of the device to a CPU.
fn route(controller: &mut Controller, affinity: u64) {
    controller.write_distributor(0x6000 + 8 * u64::from(LINE), 8, affinity);
}

/// The number of the shared interrupt that a CPU is offered first, 0 for none.
fn shared(controller: &mut Controller, cpu: usize) -> u64 {
    controller.offer(cpu).registers[1] & 0xffff
}

#[test]
fn a_level_comes_again_until_its_line_is_low() {
    let mut controller = controller();
    controller.set_line(LINE, true);
    assert!(controller.must_leave(0));
    let [_, offered, _] = controller.offer(0).registers;
    assert_eq!(offered & (PENDING | ACTIVE | TELL_END | 0xffff), PENDING | TELL_END | 33);
    controller.collect(0, &[0, offered & !PENDING | ACTIVE, 0], 0);
    assert!(!controller.must_leave(0), "the guest handles it");
    let [_, again, _] = controller.offer(0).registers;
    assert_eq!(again & (PENDING | ACTIVE), PENDING | ACTIVE, "the line is still high");
    controller.collect(0, &[0, again & !ACTIVE, 0], 0);
    controller.set_line(LINE, false);
    assert_eq!(controller.offer(0).registers, [0; 3]);
}

#[test]
fn a_level_that_the_guest_made_pending_comes_once() {
    let mut controller = controller();
    controller.write_distributor(register::SET_PENDING + 4, 4, 1 << (LINE - 32));
    let [_, offered, _] = controller.offer(0).registers;
    assert_eq!(offered & (PENDING | ACTIVE | 0xffff), PENDING | 33);
    controller.collect(0, &[0, offered, 0], 0);
    let [_, again, _] = controller.offer(0).registers;
    assert_eq!(again, offered, "it was not taken");
    controller.collect(0, &[0, again & !PENDING | ACTIVE, 0], 0);
    let [_, active, _] = controller.offer(0).registers;
    assert_eq!(active & (PENDING | ACTIVE), ACTIVE);
    controller.collect(0, &[0; 3], 0);
    assert_eq!(controller.offer(0).registers, [0; 3]);
}

#[test]
fn an_edge_comes_once_for_each_rise_of_its_line() {
    let mut controller = controller();
    controller.write_distributor(register::TRIGGER + 8, 4, 0b1000);
    controller.set_line(LINE, true);
    let [_, offered, _] = controller.offer(0).registers;
    assert_eq!(offered & (PENDING | ACTIVE | TELL_END | 0xffff), PENDING | 33, "its end need not be told");
    controller.set_line(LINE, true);
    controller.collect(0, &[0; 3], 0);
    assert_eq!(controller.offer(0).registers, [0; 3], "the line stayed high");
    controller.set_line(LINE, false);
    controller.set_line(LINE, true);
    assert_eq!(controller.offer(0).registers[1], offered);
}

#[test]
fn the_timers_interrupt_is_never_offered() {
    let mut controller = controller();
    for base in [register::SET_ENABLE, register::SET_PENDING, register::SET_ACTIVE] {
        controller.write_redistributor(redistributor::PRIVATE + base, 4, 1 << TIMER_INTERRUPT);
    }
    assert_eq!(controller.offer(0).registers, [0; 3]);
}

#[test]
fn one_that_is_generated_by_software_stays_pending_until_it_is_taken() {
    let mut controller = controller();
    controller.collect(0, &[0; 3], 1 << 3);
    let offered = controller.offer(0);
    assert_eq!(offered.registers[0] & (PENDING | TELL_END | 0xffff), PENDING | 3);
    controller.collect(0, &offered.registers, 0);
    assert_eq!(controller.offer(0), offered, "it was not taken");
    controller.collect(0, &[offered.registers[0] & !PENDING, 0, 0], 0);
    assert_eq!(controller.offer(0).registers, [0; 3]);
}

#[test]
fn those_generated_by_software_have_the_first_register_and_the_kernel_puts_in_the_others() {
    let mut controller = controller();
    controller.write_redistributor(redistributor::PRIVATE + register::PRIORITY, 4, 0x10_20_30_40);
    controller.write_redistributor(redistributor::PRIVATE + register::CLEAR_ENABLE, 4, 1 << 1);
    // One that the kernel has put in, which the guest handles, and all four of which it knows.
    controller.collect(0, &[ACTIVE | 2, 0, 0], 0b1111);
    let offered = controller.offer(0);
    assert_eq!(offered.registers[0] & (ACTIVE | PENDING | 0xffff), ACTIVE | PENDING | 2);
    assert_eq!((offered.generated, offered.enabled), (0b1001, 0xfffd), "the first is disabled");
    assert_eq!(offered.priorities, [0x10_20_30_40, 0]);
    controller.collect(0, &[0; 3], 0b1000);
    assert_eq!(controller.offer(0).registers[0] & 0xffff, 3, "what the kernel has put in meanwhile is done");
    controller.write_redistributor(redistributor::PRIVATE + register::SET_ENABLE, 4, 1 << 1);
    controller.collect(0, &[0; 3], 0);
    assert_eq!(controller.offer(0).registers[0] & 0xffff, 1, "now it is enabled");
}

#[test]
fn the_most_urgent_are_offered_first_and_the_rest_not_forgotten() {
    let mut controller = controller();
    controller.write_distributor(register::SET_ENABLE + 4, 4, 0b111);
    controller.write_distributor(register::PRIORITY + 32, 4, 0x20_30_40);
    (32..35).for_each(|number| controller.set_line(number, true));
    let offered = controller.offer(0).registers;
    assert_eq!(offered.map(|register| register & 0xffff), [0, 34, 33]);
    assert!(offered[1..].iter().all(|register| register & TELL_END != 0), "one more waits");
    assert!(!controller.must_leave(0), "it has no place for that");
    controller.write_distributor(register::SET_ENABLE + 4, 4, 0b1111);
    controller.set_line(35, true);
    assert!(controller.must_leave(0), "which is more urgent is not known yet");
    controller.collect(0, &offered, 0);
    controller.offer(0);
    assert!(!controller.must_leave(0));
    controller.set_line(35, false);
    (33..35).for_each(|number| controller.set_line(number, false));
    controller.collect(0, &[0; 3], 0);
    assert_eq!(controller.offer(0).registers.map(|register| register & 0xffff), [0, 32, 0]);
    assert!(!controller.must_leave(0));
}

#[test]
fn what_becomes_pending_for_a_cpu_in_the_guest_is_added_to_what_it_has() {
    let mut controller = controller();
    controller.write_distributor(register::SET_ENABLE + 4, 4, 0b1110);
    controller.write_distributor(register::TRIGGER + 8, 4, 0b10_10_00_00);
    controller.write_distributor(register::PRIORITY + 34, 1, 0x20);
    controller.write_distributor(register::PRIORITY + 35, 1, 0x10);
    assert_eq!(controller.add(0), None, "nothing is pending");
    (34..36).for_each(|number| controller.pulse(number));
    assert!(controller.must_leave(0), "unless they are added");
    let [first, second] = [(); 2].map(|()| controller.add(0).expect("pending"));
    assert_eq!(
        [first, second].map(|register| register & (PENDING | ACTIVE | TELL_END | 0xffff)),
        [35, 34].map(|n| PENDING | n)
    );
    assert_eq!((controller.add(0), controller.must_leave(0)), (None, false), "each once");
    // The guest has ended the first, and it comes again; a level needs to be told of.
    controller.pulse(35);
    controller.set_line(LINE, true);
    let [level, again] = [(); 2].map(|()| controller.add(0).expect("pending"));
    assert_eq!([level, again].map(|register| register & (TELL_END | 0xffff)), [TELL_END | 33, 35]);
    // The kernel had no place for two of them; one it has, and the guest handles it.
    controller.take_back(0, again);
    controller.take_back(0, level);
    controller.collect(0, &[0, first & !PENDING | ACTIVE, 0], 0);
    controller.set_line(LINE, false);
    let [_, found, rest] = controller.offer(0).registers;
    assert_eq!([found, rest].map(|register| register & (PENDING | ACTIVE | 0xffff)), [PENDING | ACTIVE | 35, 0]);
}

#[test]
fn nothing_is_added_to_a_cpu_that_must_leave_or_for_another() {
    let mut controller = with(2);
    controller.write_distributor(register::SET_ENABLE + 4, 4, 0b1110);
    route(&mut controller, 1);
    controller.pulse(LINE);
    assert_eq!((controller.add(0), controller.add(1).map(|it| it & 0xffff)), (None, Some(LINE.into())));
    route(&mut controller, 0);
    assert_eq!(controller.add(0), None, "the other has it");
    controller.pulse(34);
    controller.write_redistributor(redistributor::PRIVATE + register::CLEAR_ENABLE, 4, 1);
    assert_eq!((controller.add(0), controller.must_leave(0)), (None, true), "what it goes by has changed");
    controller.collect(0, &[0; 3], 0);
    assert_eq!(shared(&mut controller, 0), 34);
    assert_eq!((controller.add(2), controller.add(usize::MAX)), (None, None), "there is no such CPU");
}

#[test]
fn an_interrupt_that_comes_again_is_for_the_cpu_that_it_is_routed_to() {
    let mut controller = with(2);
    controller.pulse(LINE);
    assert!(controller.add(0).is_some());
    // The guest has ended it, and need not have exited since.
    route(&mut controller, 1);
    controller.pulse(LINE);
    assert_eq!((controller.add(0), controller.add(1)), (None, None), "the one before counts as having it");
    assert!(controller.must_leave(0), "to give it back");
    controller.collect(0, &[0; 3], 0);
    assert_eq!(controller.add(1).map(|register| register & 0xffff), Some(LINE.into()));
}

#[test]
fn nothing_is_delivered_that_is_off() {
    let mut controller = controller();
    controller.set_line(LINE, true);
    controller.write_distributor(register::CLEAR_ENABLE + 4, 4, 1 << (LINE - 32));
    assert!(!controller.must_leave(0));
    controller.write_distributor(register::SET_ENABLE + 4, 4, 1 << (LINE - 32));
    controller.write_distributor(distributor::CTLR, 4, 0);
    assert_eq!(controller.offer(0).registers, [0; 3]);
    assert!(!controller.must_leave(0));
}

#[test]
fn registers_read_as_they_were_written_and_each_frame_has_its_own() {
    let mut controller = controller();
    controller.write_distributor(register::PRIORITY + LINE as u64, 1, 0xa0);
    assert_eq!(controller.read_distributor(register::PRIORITY + LINE as u64, 1) & 0xff, 0xa0);
    assert_eq!(controller.read_distributor(register::PRIORITY + 32, 4), 0xa000);
    assert_eq!(controller.read_distributor(register::SET_ENABLE, 4), 0, "those are the redistributor's");
    assert_eq!(controller.read_redistributor(redistributor::PRIVATE + register::SET_ENABLE, 4), 0xffff);
    controller.write_distributor(register::TRIGGER + 8, 4, 0b1000);
    assert_eq!(controller.read_distributor(register::TRIGGER + 8, 4), 0b1000);
    assert_eq!(controller.read_redistributor(redistributor::TYPER, 8), LAST.into());
    assert_eq!(controller.read_distributor(register::IDENTITY, 4) >> 4 & 0xf, 3);
}

#[test]
fn a_shared_interrupt_goes_to_the_cpu_of_its_route_and_to_no_other() {
    let mut controller = with(3);
    route(&mut controller, 2);
    controller.set_line(LINE, true);
    assert_eq!([0, 1, 2].map(|cpu| controller.must_leave(cpu)), [false, false, true]);
    assert_eq!([0, 1, 2].map(|cpu| shared(&mut controller, cpu)), [0, 0, LINE.into()]);
    assert!(!controller.must_leave(2), "it has it");
    // Handled by that CPU, it is routed elsewhere: where it is handled, it is ended.
    controller.collect(2, &[0, ACTIVE | u64::from(LINE), 0], 0);
    route(&mut controller, 1);
    assert_eq!([0, 1, 2].map(|cpu| shared(&mut controller, cpu)), [0, 0, LINE.into()]);
    controller.collect(2, &[0; 3], 0);
    assert_eq!([0, 1, 2].map(|cpu| shared(&mut controller, cpu)), [0, LINE.into(), 0]);
    for nobody in [3, 0x100, 1 << 31 | 1 << 16] {
        route(&mut controller, nobody);
        (0..3).for_each(|cpu| controller.collect(cpu, &[0; 3], 0));
        assert_eq!([0, 1, 2].map(|cpu| shared(&mut controller, cpu)), [0; 3], "no CPU has the affinity {nobody:#x}");
    }
}

#[test]
fn a_cpu_gives_back_what_another_disables_and_until_then_the_distributor_is_busy() {
    let mut controller = with(2);
    route(&mut controller, 1);
    controller.set_line(LINE, true);
    let offered = controller.offer(1).registers;
    controller.write_distributor(register::CLEAR_ENABLE + 4, 4, 1 << (LINE - 32));
    let is_busy = |controller: &Controller| controller.read_distributor(distributor::CTLR, 4) as u32 & BUSY != 0;
    assert!(is_busy(&controller) && controller.must_leave(1) && !controller.must_leave(0));
    controller.collect(1, &offered, 0);
    assert!(!is_busy(&controller) && !controller.must_leave(1));
    assert_eq!(shared(&mut controller, 1), 0);
}

#[test]
fn what_another_cpu_clears_does_not_come_back() {
    let mut controller = with(2);
    route(&mut controller, 1);
    let bit = 1 << (LINE - 32);
    controller.write_distributor(register::SET_PENDING + 4, 4, bit);
    let offered = controller.offer(1).registers;
    assert_eq!(controller.read_distributor(register::SET_PENDING + 4, 4), bit);
    controller.write_distributor(register::CLEAR_PENDING + 4, 4, bit);
    controller.collect(1, &offered, 0);
    assert_eq!(shared(&mut controller, 1), 0);
    controller.write_distributor(register::SET_PENDING + 4, 4, bit);
    let offered = controller.offer(1).registers;
    controller.write_distributor(register::CLEAR_ACTIVE + 4, 4, bit);
    assert!(controller.must_leave(1));
    controller.collect(1, &[0, offered[1] & !PENDING | ACTIVE, 0], 0);
    assert_eq!(shared(&mut controller, 1), 0);
}

#[test]
fn an_edge_that_comes_again_while_a_cpu_has_it_is_told_to_that_cpu() {
    let mut controller = with(2);
    controller.write_distributor(register::TRIGGER + 8, 4, 0b1000);
    controller.set_line(LINE, true);
    assert_eq!(shared(&mut controller, 0), LINE.into());
    route(&mut controller, 1);
    assert!(!controller.must_leave(0) && !controller.must_leave(1));
    controller.set_line(LINE, false);
    controller.set_line(LINE, true);
    assert!(controller.must_leave(0) && !controller.must_leave(1));
    controller.collect(0, &[0, ACTIVE | u64::from(LINE), 0], 0);
    assert_eq!(controller.offer(0).registers[1] & (ACTIVE | PENDING), ACTIVE | PENDING);
}

#[test]
fn each_cpu_has_its_private_interrupts_and_a_redistributor_that_says_whose_it_is() {
    const PRIVATE: u64 = 20;
    let mut controller = with(2);
    let second = |offset: u64| REDISTRIBUTOR_SIZE + redistributor::PRIVATE + offset;
    controller.write_redistributor(second(register::SET_ENABLE), 4, 1 << PRIVATE);
    controller.write_redistributor(second(register::PRIORITY + PRIVATE), 1, 0x50);
    assert_eq!(controller.read_redistributor(redistributor::PRIVATE + register::SET_ENABLE, 4), 0xffff);
    assert_eq!(controller.read_redistributor(second(register::SET_ENABLE), 4), 1 << PRIVATE | 0xffff);
    assert!(controller.must_leave(1) && !controller.must_leave(0), "what it goes by is another's change");
    controller.collect(1, &[0; 3], 0);
    controller.write_redistributor(second(register::SET_PENDING), 4, 1 << PRIVATE);
    controller.write_redistributor(redistributor::PRIVATE + register::SET_PENDING, 4, 1 << PRIVATE);
    assert_eq!(shared(&mut controller, 0), 0, "it is disabled there");
    assert_eq!(controller.offer(1).registers[1] & (PENDING | 0xff << 48 | 0xffff), PENDING | 0x50 << 48 | PRIVATE);
    assert_eq!(controller.read_redistributor(redistributor::TYPER, 8), 0);
    let last = controller.read_redistributor(REDISTRIBUTOR_SIZE + redistributor::TYPER, 8);
    assert_eq!(last, 1 << 32 | 1 << 8 | u64::from(LAST));
    assert!(controller.has_redistributor(2 * REDISTRIBUTOR_SIZE - 1));
    assert!(!controller.has_redistributor(2 * REDISTRIBUTOR_SIZE));
}
