//! System calls: each is recorded, or answered by the test ([`super::testing`]).

use super::testing::{Act, WORLD};
use crate::arch::Arrival;
use crate::turn::Leave;
use crate::{CalleeGone, Channel, Message};
use culm_abi::syscall::FaultReport;

pub(crate) fn wait(_: Leave) -> Arrival {
    unreachable!("tests take turns themselves: call `notified` and `called`")
}

pub(crate) fn reply_wait(_: &Message, leave: Leave) -> Arrival {
    wait(leave)
}

pub(crate) fn signal(group: u32, signals: u64) {
    WORLD.with(|world| world.sent.borrow_mut().push((group, signals)));
}

pub(crate) fn call(channel: u32, message: &Message) -> Result<Message, CalleeGone> {
    WORLD.with(|world| match &mut *world.callee.borrow_mut() {
        Some(callee) => callee(Channel::new(channel), *message),
        None => panic!("channel {channel} was called: say who answers by `testing::answer_calls`"),
    })
}

pub(crate) fn fault(_: u32) -> FaultReport {
    WORLD.with(|world| world.faults.borrow_mut().pop_front().unwrap_or_default())
}

fn act(act: Act) {
    WORLD.with(|world| world.acts.borrow_mut().push(act));
}

pub(crate) fn resume(channel: u32) {
    act(Act::Resume(Channel::new(channel)));
}

pub(crate) fn restart(channel: u32) {
    act(Act::Restart(Channel::new(channel)));
}

pub(crate) fn stop(channel: u32) {
    act(Act::Stop(Channel::new(channel)));
}

pub(crate) fn halt(status: u32) -> ! {
    panic!("the component halted the system with status {status}")
}
