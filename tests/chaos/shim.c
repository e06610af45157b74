/* What does a process see of its disk and its clock, when a test says otherwise?
 *
 * Loaded with LD_PRELOAD. CHAOS_CONTROL names a file of three numbers, which the test changes while the process
 * runs: nanoseconds that the wall clock is off, the error of each write below CHAOS_FOLDER, and milliseconds
 * that each takes longer. Zero means: as it is. Clocks that nobody sets are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control { int64_t clock_ns; int64_t error; int64_t delay_ms; };
static volatile struct control *control;
static char folder[4096];
static size_t folder_bytes;

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); real; })

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("CHAOS_CONTROL"), *below = getenv("CHAOS_FOLDER");
    if (!file || !below) return;
    folder_bytes = strlen(below);
    if (folder_bytes >= sizeof folder) return;
    memcpy(folder, below, folder_bytes + 1);
    int fd = REAL(open)(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *control, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (at != MAP_FAILED) control = at;
}

static int is_below(const char *path) {
    return !strncmp(path, folder, folder_bytes) && (path[folder_bytes] == '/' || !path[folder_bytes]);
}

static int is_ours(const char *path, int at) {
    char whole[4096], link[64];
    ssize_t length;
    if (path[0] == '/') return is_below(path);
    if (at == AT_FDCWD) return getcwd(whole, sizeof whole) && is_below(whole);
    snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    length = readlink(link, whole, sizeof whole - 1);
    if (length < 0) return 0;
    whole[length] = 0;
    return is_below(whole);
}

/* A full disk still opens, renames and shrinks; a read-only one does nothing of it, but has nothing to sync. */
enum call { WRITES, SYNCS, SHRINKS, NAMES };

static int fails(enum call call, int error) {
    switch (error) {
    case ENOSPC: return call == WRITES;
    case EROFS: return call != SYNCS;
    default: return call == WRITES || call == SYNCS;
    }
}

/* Is this refused? Sets errno, or waits as long as the disk is slow. */
static int refused(int ours, enum call call) {
    int error = (int)control->error;
    long delay = (long)control->delay_ms;
    if (!ours) return 0;
    if (delay) {
        struct timespec pause = {delay / 1000, delay % 1000 * 1000000L};
        nanosleep(&pause, NULL);
    }
    if (!error || !fails(call, error)) return 0;
    errno = error;
    return 1;
}

static int is_armed(void) { return control && (control->error || control->delay_ms); }

static int fd_refused(int fd, enum call call) {
    char path[4096], link[64];
    ssize_t length;
    int before = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    errno = before;
    if (length < 0) return 0;
    path[length] = 0;
    return refused(is_below(path), call);
}

static int path_refused(const char *path, int at) {
    int before = errno, ours = is_ours(path, at);
    errno = before;
    return refused(ours, NAMES);
}

#define ON_FD(type, name, args, passed, call) \
    type name args { if (is_armed() && fd_refused(fd, call)) return -1; return REAL(name) passed; }

ON_FD(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), WRITES)
ON_FD(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at), WRITES)
ON_FD(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), WRITES)
ON_FD(ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count), WRITES)
ON_FD(ssize_t, pwritev, (int fd, const struct iovec *data, int count, off_t at), (fd, data, count, at), WRITES)
ON_FD(int, fsync, (int fd), (fd), SYNCS)
ON_FD(int, fdatasync, (int fd), (fd), SYNCS)
ON_FD(int, ftruncate, (int fd, off_t size), (fd, size), SHRINKS)
ON_FD(int, ftruncate64, (int fd, off64_t size), (fd, size), SHRINKS)

#define TO_WRITE (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)
#define MODE(last) mode_t mode = 0; if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, last); mode = va_arg(more, mode_t); va_end(more); }

int open(const char *path, int flags, ...) {
    MODE(flags)
    if ((flags & TO_WRITE) && is_armed() && path_refused(path, AT_FDCWD)) return -1;
    return REAL(open)(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
    MODE(flags)
    if ((flags & TO_WRITE) && is_armed() && path_refused(path, AT_FDCWD)) return -1;
    return REAL(open64)(path, flags, mode);
}
int openat(int at, const char *path, int flags, ...) {
    MODE(flags)
    if ((flags & TO_WRITE) && is_armed() && path_refused(path, at)) return -1;
    return REAL(openat)(at, path, flags, mode);
}
int openat64(int at, const char *path, int flags, ...) {
    MODE(flags)
    if ((flags & TO_WRITE) && is_armed() && path_refused(path, at)) return -1;
    return REAL(openat64)(at, path, flags, mode);
}
int rename(const char *old, const char *new) {
    if (is_armed() && path_refused(new, AT_FDCWD)) return -1;
    return REAL(rename)(old, new);
}
int renameat(int from, const char *old, int to, const char *new) {
    if (is_armed() && path_refused(new, to)) return -1;
    return REAL(renameat)(from, old, to, new);
}
int mkdir(const char *path, mode_t mode) {
    if (is_armed() && path_refused(path, AT_FDCWD)) return -1;
    return REAL(mkdir)(path, mode);
}
int unlink(const char *path) {
    if (is_armed() && path_refused(path, AT_FDCWD)) return -1;
    return REAL(unlink)(path);
}

int clock_gettime(clockid_t which, struct timespec *now) {
    int status = REAL(clock_gettime)(which, now);
    if (!status && control && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE) && control->clock_ns) {
        int64_t total = now->tv_sec * 1000000000LL + now->tv_nsec + control->clock_ns;
        now->tv_sec = total / 1000000000LL;
        now->tv_nsec = total % 1000000000LL;
    }
    return status;
}
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int status = REAL(gettimeofday)(now, zone);
    if (!status && control && control->clock_ns) now->tv_sec += control->clock_ns / 1000000000LL;
    return status;
}
time_t time(time_t *into) {
    time_t now = REAL(time)(NULL);
    if (control) now += control->clock_ns / 1000000000LL;
    if (into) *into = now;
    return now;
}
