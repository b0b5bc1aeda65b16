/*
 * Executions of each translated block: what a profile by function is made of.
 *
 * Every block has a slot in a table; code that QEMU generates inline adds one to the slot of the processor that
 * executes the block. A block that is translated again (QEMU empties its cache now and then) finds its slot
 * again. A block is known by its address, its length and, for user code, the address space that it was first seen in:
 * programs of different address spaces may be linked at the same address.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "counters.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SLOTS (1u << 18)

struct block {
    uint64_t address;
    uint64_t table;
    uint32_t instructions; /* 0: the slot is free */
};

static struct block blocks[SLOTS];
static unsigned used;
static struct qemu_plugin_scoreboard *executions; /* uint64_t[SLOTS] per processor */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void profile_start(void)
{
    executions = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
}

static unsigned slot_of(uint64_t address, size_t instructions, uint64_t table)
{
    uint64_t hash = (address ^ table << 20 ^ (uint64_t)instructions << 50) * 0x9e3779b97f4a7c15ull;
    for (unsigned slot = (unsigned)(hash >> 40) % SLOTS;; slot = (slot + 1) % SLOTS) {
        struct block *block = &blocks[slot];
        if (block->instructions == 0) {
            if (used >= SLOTS / 4 * 3) {
                return SLOTS; /* full: this block stays uncounted */
            }
            used++;
            *block = (struct block){ address, table, (uint32_t)instructions };
            return slot;
        }
        if (block->address == address && block->table == table && block->instructions == instructions) {
            return slot;
        }
    }
}

void profile_block(struct qemu_plugin_tb *tb, uint64_t address, size_t instructions, uint64_t table)
{
    pthread_mutex_lock(&lock);
    unsigned slot = slot_of(address, instructions, table);
    pthread_mutex_unlock(&lock);
    if (slot < SLOTS) {
        qemu_plugin_u64 entry = { executions, slot * sizeof(uint64_t) };
        qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64, entry, 1);
    }
}

/* One line a block: address space, address, instructions, executions so far. Returns the count of blocks, or -1. */
int profile_write(const char *path)
{
    if (!executions) {
        return -1;
    }
    FILE *file = fopen(path, "w");
    if (!file) {
        return -1;
    }
    int written = 0;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct block *block = &blocks[slot];
        uint64_t count = 0;
        if (block->instructions == 0) {
            continue;
        }
        for (unsigned vcpu = 0; vcpu < MAX_PROCESSORS; vcpu++) {
            if (processors[vcpu].present) {
                count += ((const uint64_t *)qemu_plugin_scoreboard_find(executions, vcpu))[slot];
            }
        }
        if (count != 0) {
            fprintf(file, "%" PRIx64 " %" PRIx64 " %" PRIu32 " %" PRIu64 "\n", block->table, block->address,
                    block->instructions, count);
            written++;
        }
    }
    return fclose(file) == 0 ? written : -1;
}
