/* A disk that fails when it is told to. Preloaded into a process, it stands between that process and
 * the C library, and lets chosen calls on chosen files fail with a chosen error.
 *
 * FAILING_DISK names a file of 4096 bytes that both sides map: the test writes what is to fail, here
 * it is read at every call. A call is counted there when it was made to fail.
 *
 * cc -shared -fPIC -O1 -o failing_disk.so failing_disk.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { READS = 1, WRITES = 2, SYNCS = 4, OPENS = 8, MAKES = 16 };

struct orders {
    volatile int calls;    /* which of the above fail now */
    volatile int error;    /* with this errno; 0: a read gives nothing, as at the end of a file */
    volatile int every;    /* only each so-many-th of them; 0 and 1: all */
    volatile int failed;   /* how many did */
    char part[64];         /* on files whose path has this in it */
};

static struct orders *orders;
static int passed;

__attribute__((constructor)) static void listen_to_orders(void) {
    const char *name = getenv("FAILING_DISK");
    int file = name ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shared != MAP_FAILED) orders = shared;
}

static int told_to_fail(int call, const char *name) {
    if (!orders || !(orders->calls & call)) return 0;
    if (!strstr(name, orders->part)) return 0;
    if (orders->every > 1 && __sync_add_and_fetch(&passed, 1) % orders->every) return 0;
    __sync_add_and_fetch(&orders->failed, 1);
    errno = orders->error;
    return 1;
}

static int fails(int call, int file) {
    char link[48], name[1024];
    if (!orders || !(orders->calls & call)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length < 0) return 0;
    name[length] = 0;
    return told_to_fail(call, name);
}

#define REAL(name, type) \
    static type real; \
    if (!real) real = (type)dlsym(RTLD_NEXT, name)
#define NOTHING (orders->error ? -1 : 0)

typedef ssize_t (*reading)(int, void *, size_t);
typedef ssize_t (*reading_at)(int, void *, size_t, off64_t);
typedef ssize_t (*writing)(int, const void *, size_t);
typedef ssize_t (*writing_at)(int, const void *, size_t, off64_t);
typedef int (*syncing)(int);
typedef int (*opening)(const char *, int, ...);
typedef int (*opening_at)(int, const char *, int, ...);
typedef int (*making)(const char *, mode_t);

ssize_t read(int file, void *into, size_t size) {
    REAL("read", reading);
    return fails(READS, file) ? NOTHING : real(file, into, size);
}

ssize_t pread(int file, void *into, size_t size, off_t at) {
    REAL("pread", reading_at);
    return fails(READS, file) ? NOTHING : real(file, into, size, at);
}

ssize_t pread64(int file, void *into, size_t size, off64_t at) {
    REAL("pread64", reading_at);
    return fails(READS, file) ? NOTHING : real(file, into, size, at);
}

ssize_t write(int file, const void *from, size_t size) {
    REAL("write", writing);
    return fails(WRITES, file) ? -1 : real(file, from, size);
}

ssize_t pwrite(int file, const void *from, size_t size, off_t at) {
    REAL("pwrite", writing_at);
    return fails(WRITES, file) ? -1 : real(file, from, size, at);
}

ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) {
    REAL("pwrite64", writing_at);
    return fails(WRITES, file) ? -1 : real(file, from, size, at);
}

int fsync(int file) {
    REAL("fsync", syncing);
    return fails(SYNCS, file) ? -1 : real(file);
}

int fdatasync(int file) {
    REAL("fdatasync", syncing);
    return fails(SYNCS, file) ? -1 : real(file);
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }

int open(const char *name, int flags, ...) {
    MODE(flags)
    REAL("open", opening);
    return told_to_fail(OPENS, name) ? -1 : real(name, flags, mode);
}

int open64(const char *name, int flags, ...) {
    MODE(flags)
    REAL("open64", opening);
    return told_to_fail(OPENS, name) ? -1 : real(name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...) {
    MODE(flags)
    REAL("openat", opening_at);
    return told_to_fail(OPENS, name) ? -1 : real(folder, name, flags, mode);
}

int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags)
    REAL("openat64", opening_at);
    return told_to_fail(OPENS, name) ? -1 : real(folder, name, flags, mode);
}

int mkdir(const char *name, mode_t mode) {
    REAL("mkdir", making);
    return told_to_fail(MAKES, name) ? -1 : real(name, mode);
}
