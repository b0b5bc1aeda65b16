/*
 * What is counted: shared by the parts of the plugin.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef CULM_COUNTERS_H
#define CULM_COUNTERS_H

#include "qemu_plugin.h"

#define MAX_PROCESSORS 16
#define MAX_SPACES 512
#define MAX_DEVICES 64
#define MAX_MARKS 8192
#define VECTORS 16
#define MAX_VECTOR_TABLES 16

/* Counted by code that QEMU generates inline: an addition each, no call. One of these per emulated processor. */
struct counters {
    uint64_t kernel;          /* instructions at addresses of the upper half */
    uint64_t user;            /* all other instructions */
    uint64_t own;             /* those of `kernel` that are in the range that `own` names */
    uint64_t wfi;             /* wait-for-interrupt instructions */
    uint64_t wfe;             /* wait-for-event instructions */
    uint64_t svc;             /* system calls */
    uint64_t hvc;             /* hypervisor calls */
    uint64_t eret;            /* exception returns */
    /* exceptions taken, by vector table (see `vector_tables`) and entry of it (Arm ARM D1.4.1) */
    uint64_t vector[MAX_VECTOR_TABLES][VECTORS];
};

/* Instructions executed while TTBR0 held `table`. */
struct space {
    uint64_t table;
    uint64_t kernel;
    uint64_t user;
    uint64_t switches; /* times TTBR0 was loaded with it */
};

/* Accesses to one page of device registers. */
struct device {
    uint64_t page;
    uint64_t reads;
    uint64_t writes;
};

/* What the plugin keeps per emulated processor besides; written by that processor's thread alone. */
struct processor {
    bool present;
    struct qemu_plugin_register *general[31];
    GByteArray *scratch;
    uint64_t settled_kernel; /* the part of `counters.kernel` that is already in a space */
    uint64_t settled_user;
    unsigned current; /* index into `spaces` */
    unsigned space_count;
    struct space spaces[MAX_SPACES]; /* the last one takes what finds no place */
    unsigned device_count;
    struct device devices[MAX_DEVICES];
};

/* All processors' sums at the moment at which a program executed a mark (see count.c). */
struct mark {
    uint64_t number;
    uint64_t x0;
    uint64_t x1;
    uint64_t time;
    uint64_t busy; /* nanoseconds for which the host has run the processor that executed the mark, its devices' work included */
    struct counters sum;
    uint64_t switches;
    struct space *spaces; /* each processor's; NULL if there was no memory for them */
    unsigned space_count;
};

extern struct processor processors[MAX_PROCESSORS];
extern struct qemu_plugin_scoreboard *scoreboard;
/* Addresses of the vector tables that kernels have set so far. Only written before the count says that they are there. */
extern uint64_t vector_tables[MAX_VECTOR_TABLES];
extern unsigned vector_table_count;

extern struct mark marks[MAX_MARKS];
extern unsigned mark_count;

uint64_t now_nanoseconds(void);
void sum_counters(struct counters *sum, uint64_t *switches);

/* Copies the address spaces of a processor in which anything has run to `spaces`, which has room for MAX_SPACES; returns
 * how many. `counters` are the processor's: what was counted since the last change of address space is in no space yet. */
unsigned copy_spaces(struct space *spaces, const struct processor *processor, const struct counters *counters);

/* profile.c: executions of each translated block. */
void profile_start(void);
void profile_block(struct qemu_plugin_tb *tb, uint64_t address, size_t instructions, uint64_t table);
int profile_write(const char *path);

/* control.c: the socket on which a harness asks for the counters. */
int control_start(const char *path);

#endif
