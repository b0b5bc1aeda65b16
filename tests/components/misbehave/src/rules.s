// Functions of one instruction that a component may not run. Those that assemblers refuse for this
// processor are written as numbers.

    .section .text.misbehave, "ax", %progbits

    .macro forbidden name, instruction:vararg
    .globl \name
    .type \name, %function
\name:
    \instruction
    ret
    .size \name, . - \name
    .endm

    forbidden misbehave_no_such_call, svc #9
    forbidden misbehave_last_call, svc #0xffff
    forbidden misbehave_undefined, udf #0
    forbidden misbehave_breakpoint, brk #7
    forbidden misbehave_floating_point, .inst 0x1e604000    // fmov d0, d0
    forbidden misbehave_page_table_register, mrs x0, ttbr0_el1
    forbidden misbehave_interrupt_mask, msr daifset, #15
    forbidden misbehave_timer_register, msr cntv_cval_el0, xzr
    forbidden misbehave_performance_counter, mrs x0, pmccntr_el0
    forbidden misbehave_debug_channel, mrs x0, mdccsr_el0
    forbidden misbehave_hypervisor_call, hvc #0
    forbidden misbehave_monitor_call, smc #0
    forbidden misbehave_exception_return, eret
    forbidden misbehave_cache_maintenance, dc ivac, x0
