/*
 * The UNIX socket on which a harness asks for the counters while the guest runs.
 *
 * A thread of its own sleeps in the kernel until a request comes, so the guest is not disturbed. Requests are lines, answers are
 * one line of JSON each:
 *   snapshot       the counters of every processor, address space and device
 *   marks          the marks that programs in the guest have set so far
 *   profile PATH   writes the executions of each block to PATH, answers with their number
 * The thread reads counters that other threads write; each is a 64-bit word and only grows.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#define _GNU_SOURCE
#include "counters.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int listener = -1;

static void write_counters(FILE *out, const struct counters *counters)
{
    fprintf(out,
            "\"kernel\":%" PRIu64 ",\"user\":%" PRIu64 ",\"own\":%" PRIu64 ",\"wfi\":%" PRIu64 ",\"wfe\":%" PRIu64 ",\"svc\":%" PRIu64
            ",\"hvc\":%" PRIu64 ",\"eret\":%" PRIu64 ",\"vectors\":[",
            counters->kernel, counters->user, counters->own, counters->wfi, counters->wfe, counters->svc, counters->hvc,
            counters->eret);
    unsigned tables = __atomic_load_n(&vector_table_count, __ATOMIC_ACQUIRE);
    for (unsigned vector = 0; vector < VECTORS; vector++) {
        uint64_t sum = 0;
        for (unsigned table = 0; table < tables; table++) {
            sum += counters->vector[table][vector];
        }
        fprintf(out, "%s%" PRIu64, vector ? "," : "", sum);
    }
    fprintf(out, "],\"tables\":[");
    for (unsigned table = 0; table < tables; table++) {
        uint64_t sum = 0;
        for (unsigned vector = 0; vector < VECTORS; vector++) {
            sum += counters->vector[table][vector];
        }
        fprintf(out, "%s{\"address\":%" PRIu64 ",\"taken\":%" PRIu64 "}", table ? "," : "", vector_tables[table], sum);
    }
    fprintf(out, "]");
}

static void write_spaces(FILE *out, const struct space *spaces, unsigned count)
{
    fprintf(out, "\"spaces\":[");
    for (unsigned index = 0; index < count; index++) {
        const struct space *space = &spaces[index];
        fprintf(out, "%s{\"table\":%" PRIu64 ",\"kernel\":%" PRIu64 ",\"user\":%" PRIu64 ",\"switches\":%" PRIu64 "}",
                index ? "," : "", space->table, space->kernel, space->user, space->switches);
    }
    fprintf(out, "]");
}

static void write_devices(FILE *out, const struct processor *processor)
{
    fprintf(out, "\"devices\":[");
    for (unsigned index = 0; index < processor->device_count; index++) {
        const struct device *device = &processor->devices[index];
        fprintf(out, "%s{\"page\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"writes\":%" PRIu64 "}", index ? "," : "",
                device->page, device->reads, device->writes);
    }
    fprintf(out, "]");
}

static void snapshot(FILE *out)
{
    fprintf(out, "{\"time\":%" PRIu64 ",\"processors\":[", now_nanoseconds());
    for (unsigned vcpu = 0; vcpu < MAX_PROCESSORS && processors[vcpu].present; vcpu++) {
        struct counters counters = *(const struct counters *)qemu_plugin_scoreboard_find(scoreboard, vcpu);
        fprintf(out, "%s{", vcpu ? "," : "");
        write_counters(out, &counters);
        fprintf(out, ",");
        struct space spaces[MAX_SPACES];
        write_spaces(out, spaces, copy_spaces(spaces, &processors[vcpu], &counters));
        fprintf(out, ",");
        write_devices(out, &processors[vcpu]);
        fprintf(out, "}");
    }
    fprintf(out, "]}\n");
}

static void write_marks(FILE *out)
{
    unsigned count = __atomic_load_n(&mark_count, __ATOMIC_ACQUIRE);
    fprintf(out, "{\"marks\":[");
    for (unsigned index = 0; index < count; index++) {
        const struct mark *mark = &marks[index];
        fprintf(out,
                "%s{\"number\":%" PRIu64 ",\"x0\":%" PRIu64 ",\"x1\":%" PRIu64 ",\"time\":%" PRIu64 ",\"busy\":%" PRIu64
                ",\"switches\":%" PRIu64 ",",
                index ? "," : "", mark->number, mark->x0, mark->x1, mark->time, mark->busy, mark->switches);
        write_counters(out, &mark->sum);
        fprintf(out, ",");
        write_spaces(out, mark->spaces, mark->space_count);
        fprintf(out, "}");
    }
    fprintf(out, "]}\n");
}

static void answer(FILE *out, const char *request)
{
    if (strcmp(request, "snapshot") == 0) {
        snapshot(out);
    } else if (strcmp(request, "marks") == 0) {
        write_marks(out);
    } else if (strncmp(request, "profile ", 8) == 0) {
        fprintf(out, "{\"blocks\":%d}\n", profile_write(request + 8));
    } else {
        fprintf(out, "{\"error\":\"unknown request\"}\n");
    }
    fflush(out);
}

static void *serve(void *unused)
{
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        if (connection < 0) {
            if (errno == EINTR || errno == ECONNABORTED) {
                continue;
            }
            return unused;
        }
        FILE *in = fdopen(connection, "r");
        FILE *out = fdopen(dup(connection), "w");
        char line[4096];
        while (in && out && fgets(line, sizeof line, in)) {
            line[strcspn(line, "\n")] = 0;
            answer(out, line);
        }
        if (in) {
            fclose(in);
        }
        if (out) {
            fclose(out);
        }
    }
}

int control_start(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (strlen(path) >= sizeof address.sun_path) {
        fprintf(stderr, "count plugin: socket path is longer than %zu bytes: %s\n", sizeof address.sun_path - 1, path);
        return -1;
    }
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4) != 0) {
        fprintf(stderr, "count plugin: cannot listen at %s: %s\n", path, strerror(errno));
        return -1;
    }
    /* QEMU's threads talk to each other by signals, which must not end up in this one. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, serve, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        fprintf(stderr, "count plugin: cannot start a thread: %s\n", strerror(failed));
        return -1;
    }
    pthread_setname_np(thread, "count");
    return 0;
}
