// Stands between a process and the C library: counts what changes the files under one folder, kills the process at the
// n-th such call, and records every call that came to an end. Loaded with LD_PRELOAD, so that it sees the engine's C++
// and Delta's Rust as well as Python; armed by the process itself.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[PATH_MAX];
static size_t root_length;
static int recording = -1;
static long kill_at;
static long count;
static pthread_mutex_t turn = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void shim_arm(const char *folder, int descriptor, long at) {
    strncpy(root, folder, sizeof root - 1);
    recording = descriptor;
    kill_at = at;
    count = 0;
    root_length = strlen(root);
}

long shim_count(void) { return count; }

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        long done = syscall(SYS_write, recording, at, size);
        if (done <= 0) _exit(99);
        at += done, size -= done;
    }
}

static void record(char kind, uint64_t inode, int64_t offset, const char *one, const char *two, const void *data,
                   uint64_t size) {
    if (recording < 0) return;
    uint16_t lengths[2] = {strlen(one), strlen(two)};
    put(&kind, 1), put(&inode, 8), put(&offset, 8), put(&size, 8), put(lengths, 4);
    put(one, lengths[0]), put(two, lengths[1]);
    if (size) put(data, size);
}

void shim_mark(const char *words) {
    pthread_mutex_lock(&turn);
    record('M', 0, 0, "", "", words, strlen(words));
    pthread_mutex_unlock(&turn);
}

static void of_descriptor(int descriptor, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    long length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = 0;
}

static void absolute(int folder, const char *given, char *path) {
    char base[PATH_MAX] = "";
    if (given[0] != '/') {
        if (folder == AT_FDCWD) {
            if (!getcwd(base, sizeof base)) base[0] = 0;
        } else {
            of_descriptor(folder, base);
        }
        strcat(base, "/");
    }
    snprintf(path, PATH_MAX, "%s%s", base, given);
}

static int is_ours(const char *path) {
    return root_length && !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
}

static int is_our_file(int descriptor) {
    char path[PATH_MAX];
    if (!root_length) return 0;
    of_descriptor(descriptor, path);
    return is_ours(path);
}

static uint64_t inode_of(int descriptor) {
    struct stat found;
    return fstat(descriptor, &found) ? 0 : found.st_ino;
}

static uint64_t inode_at(const char *path) {
    struct stat found;
    return lstat(path, &found) ? 0 : found.st_ino;
}

static void point(void) {
    if (++count == kill_at) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

// Runs a call that changes something, one at a time; `keep` records it if it succeeded.
#define CHANGE(type, call, keep) \
    pthread_mutex_lock(&turn); \
    point(); \
    type answer = call; \
    int error = errno; \
    if (answer >= 0) { keep; } \
    pthread_mutex_unlock(&turn); \
    errno = error; \
    return answer

static int opened(int (*do_open)(int, const char *, int, ...), int folder, const char *given, int flags, mode_t mode) {
    char path[PATH_MAX];
    if (root_length) absolute(folder, given, path);
    if (!root_length || !(flags & (O_CREAT | O_TRUNC)) || !is_ours(path)) return do_open(folder, given, flags, mode);
    uint64_t before = inode_at(path);
    if (before && !(flags & O_TRUNC)) return do_open(folder, given, flags, mode);
    CHANGE(int, do_open(folder, given, flags, mode),
           record(before ? 'T' : 'C', inode_of(answer), 0, path, "", "", 0));
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    }
int open(const char *path, int flags, ...) { MODE return opened(REAL(openat), AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(REAL(openat), AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE return opened(REAL(openat), at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE return opened(REAL(openat), at, path, flags, mode); }
int creat(const char *path, mode_t mode) {
    return opened(REAL(openat), AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

static off_t end_of(int descriptor) {
    if (fcntl(descriptor, F_GETFL) & O_APPEND) return lseek(descriptor, 0, SEEK_END);
    return lseek(descriptor, 0, SEEK_CUR);
}

ssize_t write(int to, const void *data, size_t size) {
    if (!is_our_file(to)) return REAL(write)(to, data, size);
    off_t at = end_of(to);
    CHANGE(ssize_t, REAL(write)(to, data, size), record('W', inode_of(to), at, "", "", data, answer));
}

ssize_t pwrite(int to, const void *data, size_t size, off_t at) {
    if (!is_our_file(to)) return REAL(pwrite)(to, data, size, at);
    CHANGE(ssize_t, REAL(pwrite)(to, data, size, at), record('W', inode_of(to), at, "", "", data, answer));
}
ssize_t pwrite64(int to, const void *data, size_t size, off_t at) { return pwrite(to, data, size, at); }

// Those that write otherwise are recorded by reading what they wrote.
static void record_range(int to, off_t at, size_t size) {
    char path[PATH_MAX];
    of_descriptor(to, path);
    int from = REAL(openat)(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    char *data = malloc(size);
    if (from < 0 || pread(from, data, size, at) != (ssize_t)size) _exit(98);
    record('W', inode_of(to), at, "", "", data, size);
    free(data);
    close(from);
}

ssize_t writev(int to, const struct iovec *parts, int number) {
    if (!is_our_file(to)) return REAL(writev)(to, parts, number);
    off_t at = end_of(to);
    CHANGE(ssize_t, REAL(writev)(to, parts, number), record_range(to, at, answer));
}

ssize_t sendfile(int to, int from, off_t *offset, size_t size) {
    if (!is_our_file(to)) return REAL(sendfile)(to, from, offset, size);
    off_t at = end_of(to);
    CHANGE(ssize_t, REAL(sendfile)(to, from, offset, size), if (answer) record_range(to, at, answer));
}
ssize_t sendfile64(int to, int from, off_t *offset, size_t size) { return sendfile(to, from, offset, size); }

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t size, unsigned flags) {
    if (!is_our_file(to)) return REAL(copy_file_range)(from, from_at, to, to_at, size, flags);
    off_t at = to_at ? *to_at : end_of(to);
    CHANGE(ssize_t, REAL(copy_file_range)(from, from_at, to, to_at, size, flags),
           if (answer) record_range(to, at, answer));
}

int ftruncate(int to, off_t size) {
    if (!is_our_file(to)) return REAL(ftruncate)(to, size);
    CHANGE(int, REAL(ftruncate)(to, size), record('T', inode_of(to), size, "", "", "", 0));
}
int ftruncate64(int to, off_t size) { return ftruncate(to, size); }

int truncate(const char *given, off_t size) {
    char path[PATH_MAX];
    absolute(AT_FDCWD, given, path);
    if (!is_ours(path)) return REAL(truncate)(given, size);
    CHANGE(int, REAL(truncate)(given, size), record('T', inode_at(path), size, "", "", "", 0));
}
int truncate64(const char *path, off_t size) { return truncate(path, size); }

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
    char one[PATH_MAX], two[PATH_MAX];
    absolute(from, old, one), absolute(to, new, two);
    if (!is_ours(one) && !is_ours(two)) return REAL(renameat2)(from, old, to, new, flags);
    CHANGE(int, REAL(renameat2)(from, old, to, new, flags), record('R', 0, 0, one, two, "", 0));
}
int renameat(int from, const char *old, int to, const char *new) { return renameat2(from, old, to, new, 0); }
int rename(const char *old, const char *new) { return renameat2(AT_FDCWD, old, AT_FDCWD, new, 0); }

int linkat(int from, const char *old, int to, const char *new, int flags) {
    char one[PATH_MAX], two[PATH_MAX];
    absolute(from, old, one), absolute(to, new, two);
    if (!is_ours(two)) return REAL(linkat)(from, old, to, new, flags);
    CHANGE(int, REAL(linkat)(from, old, to, new, flags), record('L', 0, 0, one, two, "", 0));
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

int unlinkat(int folder, const char *given, int flags) {
    char path[PATH_MAX];
    absolute(folder, given, path);
    if (!is_ours(path)) return REAL(unlinkat)(folder, given, flags);
    CHANGE(int, REAL(unlinkat)(folder, given, flags), record('U', 0, 0, path, "", "", 0));
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int remove(const char *path) {
    struct stat found;
    return unlinkat(AT_FDCWD, path, !lstat(path, &found) && S_ISDIR(found.st_mode) ? AT_REMOVEDIR : 0);
}
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int folder, const char *given, mode_t mode) {
    char path[PATH_MAX];
    absolute(folder, given, path);
    if (!is_ours(path)) return REAL(mkdirat)(folder, given, mode);
    CHANGE(int, REAL(mkdirat)(folder, given, mode), record('D', inode_at(path), 0, path, "", "", 0));
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

int fsync(int of) {
    if (!is_our_file(of)) return REAL(fsync)(of);
    CHANGE(int, REAL(fsync)(of), record('S', inode_of(of), 0, "", "", "", 0));
}
int fdatasync(int of) {
    if (!is_our_file(of)) return REAL(fdatasync)(of);
    CHANGE(int, REAL(fdatasync)(of), record('S', inode_of(of), 0, "", "", "", 0));
}
int syncfs(int of) {
    if (!is_our_file(of)) return REAL(syncfs)(of);
    CHANGE(int, 0, record('A', 0, 0, "", "", "", 0));
}
