/*
 * A QEMU plugin that counts guest instructions by processor, by kernel and user, and by address space.
 *
 * Why this way: additions that QEMU generates inline cost next to nothing, but cannot see which program runs. So
 * they only add to one kernel and one user counter per processor, and whenever the guest's kernel loads TTBR0, a callback moves
 * what has accumulated to the address space that was loaded before. That is exact: nothing is sampled. The load is
 * recognised by its encoding (Arm ARM C6.2, MSR (register)), so that no symbol is needed and any kernel can be counted, Linux
 * too. Exceptions are counted the same way: the kernel's VBAR says where its vectors are, and a block that
 * begins at a vector is executed once for each exception. A kernel that has several tables has them counted apart.
 *
 * A program in the guest may mark a moment: `hint #96` to `hint #127`, which architecture and QEMU treat as no operation
 * (Arm ARM C6.2.130), records all counters with the values of x0 and x1, and with profile=on writes the executions of each
 * block to SOCKET.mark.POSITION.
 *
 * A hypervisor's kernel and that of its guest are both in the upper half. The addresses of the hypervisor's, own=FIRST-END in
 * hexadecimal, have its instructions counted apart too.
 *
 * Arguments: socket=PATH (see control.c), own=FIRST-END, profile=on (count executions of each block), devices=on (count accesses to device
 * registers; a callback for each memory access, so it slows the guest down but does not change what it executes).
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#include "counters.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UPPER_HALF (1ull << 63)

PLUGIN_EXPORT int qemu_plugin_version = PLUGIN_API_VERSION;

struct processor processors[MAX_PROCESSORS];
struct qemu_plugin_scoreboard *scoreboard;
struct mark marks[MAX_MARKS];
unsigned mark_count;

static bool count_devices;
static bool count_blocks;
static uint64_t own_first, own_end;
uint64_t vector_tables[MAX_VECTOR_TABLES];
unsigned vector_table_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The address space of the processor that this thread emulates (QEMU has one thread per processor). */
static __thread uint64_t current_table;

uint64_t now_nanoseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static qemu_plugin_u64 field(size_t offset)
{
    return (qemu_plugin_u64){ scoreboard, offset };
}

/* Values of MSR (register) with the source register cleared. Under VHE a kernel at EL2 may use either name. */
static bool loads_ttbr0(uint32_t code)
{
    uint32_t base = code & ~0x1fu;
    return base == 0xd5182000u || base == 0xd51c2000u; /* TTBR0_EL1, TTBR0_EL2 */
}

static bool loads_vbar(uint32_t code)
{
    uint32_t base = code & ~0x1fu;
    return base == 0xd518c000u || base == 0xd51cc000u; /* VBAR_EL1, VBAR_EL2 */
}

static bool is_mark(uint32_t code)
{
    return (code & 0xfffff01fu) == 0xd503201fu && (code >> 5 & 0x7f) >= 96; /* HINT #96 and up */
}

static uint64_t read_general(struct processor *processor, unsigned number)
{
    uint64_t value = 0;
    if (number >= 31 || !processor->general[number]) {
        return 0; /* register 31 is the zero register here */
    }
    g_byte_array_set_size(processor->scratch, 0);
    if (qemu_plugin_read_register(processor->general[number], processor->scratch) == sizeof value) {
        memcpy(&value, processor->scratch->data, sizeof value);
    }
    return value;
}

/* Moves what was counted since the last change of address space to the current one. */
static void settle(struct processor *processor, unsigned vcpu)
{
    const struct counters *counters = qemu_plugin_scoreboard_find(scoreboard, vcpu);
    struct space *space = &processor->spaces[processor->current];
    space->kernel += counters->kernel - processor->settled_kernel;
    space->user += counters->user - processor->settled_user;
    processor->settled_kernel = counters->kernel;
    processor->settled_user = counters->user;
}

static unsigned find_space(struct processor *processor, uint64_t table)
{
    for (unsigned index = 0; index < processor->space_count; index++) {
        if (processor->spaces[index].table == table) {
            return index;
        }
    }
    if (processor->space_count + 1 >= MAX_SPACES) {
        processor->spaces[MAX_SPACES - 1].table = UINT64_MAX;
        return MAX_SPACES - 1;
    }
    processor->spaces[processor->space_count].table = table;
    return processor->space_count++;
}

static void on_ttbr0(unsigned vcpu, void *number)
{
    if (vcpu >= MAX_PROCESSORS) {
        return;
    }
    struct processor *processor = &processors[vcpu];
    uint64_t table = read_general(processor, (unsigned)(uintptr_t)number) & 0x0000fffffffffffeull; /* without ASID, CnP */
    if (table == current_table) {
        return;
    }
    settle(processor, vcpu);
    processor->current = find_space(processor, table);
    processor->spaces[processor->current].switches++;
    current_table = table;
}

static void on_vbar(unsigned vcpu, void *number)
{
    if (vcpu >= MAX_PROCESSORS) {
        return;
    }
    uint64_t base = read_general(&processors[vcpu], (unsigned)(uintptr_t)number);
    pthread_mutex_lock(&lock);
    bool known = false;
    for (unsigned index = 0; index < vector_table_count; index++) {
        known |= vector_tables[index] == base;
    }
    if (!known && vector_table_count < MAX_VECTOR_TABLES) {
        vector_tables[vector_table_count] = base;
        __atomic_store_n(&vector_table_count, vector_table_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

void sum_counters(struct counters *sum, uint64_t *switches)
{
    memset(sum, 0, sizeof *sum);
    *switches = 0;
    for (unsigned vcpu = 0; vcpu < MAX_PROCESSORS; vcpu++) {
        if (!processors[vcpu].present) {
            continue;
        }
        const struct counters *counters = qemu_plugin_scoreboard_find(scoreboard, vcpu);
        sum->kernel += counters->kernel;
        sum->user += counters->user;
        sum->own += counters->own;
        sum->wfi += counters->wfi;
        sum->wfe += counters->wfe;
        sum->svc += counters->svc;
        sum->hvc += counters->hvc;
        sum->eret += counters->eret;
        for (unsigned table = 0; table < MAX_VECTOR_TABLES; table++) {
            for (unsigned vector = 0; vector < VECTORS; vector++) {
                sum->vector[table][vector] += counters->vector[table][vector];
            }
        }
        for (unsigned space = 0; space < MAX_SPACES; space++) {
            *switches += processors[vcpu].spaces[space].switches;
        }
    }
}

unsigned copy_spaces(struct space *spaces, const struct processor *processor, const struct counters *counters)
{
    unsigned count = 0;
    for (unsigned index = 0; index < MAX_SPACES; index++) {
        struct space space = processor->spaces[index];
        if (index == processor->current) {
            space.kernel += counters->kernel - processor->settled_kernel;
            space.user += counters->user - processor->settled_user;
        }
        if (space.kernel || space.user || space.switches) {
            spaces[count++] = space;
        }
    }
    return count;
}

static void mark_spaces(struct mark *mark)
{
    static struct space all[MAX_PROCESSORS * MAX_SPACES]; /* used under `lock` */
    unsigned count = 0;
    for (unsigned vcpu = 0; vcpu < MAX_PROCESSORS; vcpu++) {
        if (processors[vcpu].present) {
            count += copy_spaces(&all[count], &processors[vcpu], qemu_plugin_scoreboard_find(scoreboard, vcpu));
        }
    }
    mark->spaces = malloc(count * sizeof *all);
    mark->space_count = mark->spaces ? count : 0;
    if (mark->spaces) {
        memcpy(mark->spaces, all, count * sizeof *all);
    }
}

/* Nanoseconds for which the host has run this thread. */
static uint64_t busy_nanoseconds(void)
{
    struct timespec busy;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &busy);
    return (uint64_t)busy.tv_sec * 1000000000u + (uint64_t)busy.tv_nsec;
}

/* Where executions of blocks are written at each mark: this, a dot and the mark's position. */
static char mark_profiles[4096];

static void on_mark(unsigned vcpu, void *number)
{
    if (vcpu >= MAX_PROCESSORS) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (mark_count < MAX_MARKS) {
        struct mark *mark = &marks[mark_count];
        mark->number = (uint64_t)(uintptr_t)number;
        mark->x0 = read_general(&processors[vcpu], 0);
        mark->x1 = read_general(&processors[vcpu], 1);
        mark->time = now_nanoseconds();
        mark->busy = busy_nanoseconds();
        mark_spaces(mark);
        sum_counters(&mark->sum, &mark->switches);
        if (count_blocks) {
            char path[sizeof mark_profiles + 16];
            snprintf(path, sizeof path, "%s.%u", mark_profiles, mark_count);
            profile_write(path);
        }
        __atomic_store_n(&mark_count, mark_count + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

static void on_memory(unsigned vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    (void)unused;
    struct qemu_plugin_hwaddr *hardware = qemu_plugin_get_hwaddr(info, address);
    if (vcpu >= MAX_PROCESSORS || !hardware || !qemu_plugin_hwaddr_is_io(hardware)) {
        return;
    }
    struct processor *processor = &processors[vcpu];
    uint64_t page = qemu_plugin_hwaddr_phys_addr(hardware) & ~0xfffull;
    unsigned index = 0;
    while (index < processor->device_count && processor->devices[index].page != page) {
        index++;
    }
    if (index == processor->device_count) {
        if (index == MAX_DEVICES) {
            return;
        }
        processor->devices[index].page = page;
        processor->device_count++;
    }
    if (qemu_plugin_mem_is_store(info)) {
        processor->devices[index].writes++;
    } else {
        processor->devices[index].reads++;
    }
}

/* Counters and callbacks for one instruction of a block. */
static void instrument(struct qemu_plugin_insn *insn)
{
    uint32_t code = 0;
    if (qemu_plugin_insn_data(insn, &code, sizeof code) != sizeof code) {
        return;
    }
    size_t offset = SIZE_MAX;
    if (code == 0xd503207fu) {
        offset = offsetof(struct counters, wfi);
    } else if (code == 0xd503205fu) {
        offset = offsetof(struct counters, wfe);
    } else if ((code & 0xffe0001fu) == 0xd4000001u) {
        offset = offsetof(struct counters, svc);
    } else if ((code & 0xffe0001fu) == 0xd4000002u) {
        offset = offsetof(struct counters, hvc);
    } else if (code == 0xd69f03e0u) {
        offset = offsetof(struct counters, eret);
    } else if (loads_ttbr0(code)) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_ttbr0, QEMU_PLUGIN_CB_R_REGS, (void *)(uintptr_t)(code & 0x1f));
    } else if (loads_vbar(code)) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_vbar, QEMU_PLUGIN_CB_R_REGS, (void *)(uintptr_t)(code & 0x1f));
    } else if (is_mark(code)) {
        qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_R_REGS,
                                               (void *)(uintptr_t)(code >> 5 & 0x7f));
    }
    if (offset != SIZE_MAX) {
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, field(offset), 1);
    }
    if (count_devices) {
        qemu_plugin_register_vcpu_mem_cb(insn, on_memory, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
    }
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    bool kernel = address & UPPER_HALF;

    qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        tb, QEMU_PLUGIN_INLINE_ADD_U64,
        field(kernel ? offsetof(struct counters, kernel) : offsetof(struct counters, user)), instructions);
    if (address >= own_first && address < own_end) {
        qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(tb, QEMU_PLUGIN_INLINE_ADD_U64,
                                                          field(offsetof(struct counters, own)), instructions);
    }

    unsigned tables = __atomic_load_n(&vector_table_count, __ATOMIC_ACQUIRE);
    for (unsigned index = 0; index < tables; index++) {
        uint64_t offset = address - vector_tables[index];
        if (offset < 0x80 * VECTORS && offset % 0x80 == 0) {
            qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                tb, QEMU_PLUGIN_INLINE_ADD_U64,
                field(offsetof(struct counters, vector) + (index * VECTORS + offset / 0x80) * sizeof(uint64_t)), 1);
            break;
        }
    }
    for (size_t index = 0; index < instructions; index++) {
        instrument(qemu_plugin_tb_get_insn(tb, index));
    }
    if (count_blocks) {
        profile_block(tb, address, instructions, kernel ? 0 : current_table);
    }
}

static void on_processor(qemu_plugin_id_t id, unsigned vcpu)
{
    (void)id;
    if (vcpu >= MAX_PROCESSORS) {
        return;
    }
    struct processor *processor = &processors[vcpu];
    processor->scratch = g_byte_array_new();
    GArray *registers = qemu_plugin_get_registers();
    const qemu_plugin_reg_descriptor *descriptors = (const void *)registers->data;
    for (unsigned index = 0; index < registers->len; index++) {
        unsigned number;
        char rest;
        if (sscanf(descriptors[index].name, "x%u%c", &number, &rest) == 1 && number < 31) {
            processor->general[number] = descriptors[index].handle;
        }
    }
    processor->space_count = 1; /* space 0: before the first load of TTBR0 */
    processor->present = true;
}

PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
    const char *socket_path = NULL;
    if (!info->system_emulation || strcmp(info->target_name, "aarch64") != 0) {
        fprintf(stderr, "count plugin: only qemu-system-aarch64 can be counted\n");
        return -1;
    }
    for (int index = 0; index < argc; index++) {
        if (strncmp(argv[index], "socket=", 7) == 0) {
            socket_path = argv[index] + 7;
        } else if (sscanf(argv[index], "own=%" SCNx64 "-%" SCNx64, &own_first, &own_end) == 2) {
            continue;
        } else if (strcmp(argv[index], "profile=on") == 0) {
            count_blocks = true;
        } else if (strcmp(argv[index], "devices=on") == 0) {
            count_devices = true;
        } else {
            fprintf(stderr, "count plugin: unknown argument '%s' (known: socket=PATH, own=FIRST-END, profile=on, devices=on)\n",
                    argv[index]);
            return -1;
        }
    }
    if (!socket_path) {
        fprintf(stderr, "count plugin: socket=PATH is missing\n");
        return -1;
    }
    scoreboard = qemu_plugin_scoreboard_new(sizeof(struct counters));
    if (count_blocks) {
        profile_start();
        snprintf(mark_profiles, sizeof mark_profiles, "%s.mark", socket_path);
    }
    if (control_start(socket_path) != 0) {
        return -1;
    }
    qemu_plugin_register_vcpu_init_cb(id, on_processor);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    return 0;
}
