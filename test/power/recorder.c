/*
 * Loaded into the program (LD_PRELOAD): records what it does to the files below one folder, in order, so that the states
 * can be built in which a loss of power may leave the disk.
 *
 * POWER_ROOT is the folder, POWER_LOG the file of the records. A record is a line, followed by as many bytes as its last
 * field says:
 *
 *   create INODE 0 0 N path     an entry and its empty file were made
 *   mkdir INODE 0 0 N path
 *   truncate INODE LENGTH 0 0
 *   write INODE OFFSET 0 N bytes
 *   sync INODE 0 0 0            the file or folder was synced
 *   rename 0 0 N M path path    (both paths follow)
 *   unlink 0 0 0 N path         also of a folder
 *   say FD 0 0 N text           standard output or error, or a file of marks
 *
 * Every call and its record are made under one lock, so that the order of the records is the order of the calls.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_length;
static char marks[PATH_MAX];

#define REAL(result, name, ...) \
  static result (*real_##name)(__VA_ARGS__); \
  if (real_##name == NULL) real_##name = (result(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

static ssize_t really_write(int fd, const void *bytes, size_t length) {
  REAL(ssize_t, write, int, const void *, size_t);
  return real_write(fd, bytes, length);
}

__attribute__((constructor)) static void begin(void) {
  const char *folder = getenv("POWER_ROOT"), *path = getenv("POWER_LOG");
  if (folder == NULL || path == NULL) return;
  REAL(int, open, const char *, int, ...);
  snprintf(root, sizeof root, "%s/", folder);
  root_length = strlen(root);
  snprintf(marks, sizeof marks, "%s.marks", path);
  log_fd = real_open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log_fd < 0) abort();
}

static void put(const void *bytes, size_t length) {
  const char *next = bytes;
  while (length > 0) {
    ssize_t written = really_write(log_fd, next, length);
    if (written < 0) abort();
    next += written;
    length -= (size_t)written;
  }
}

static void record(const char *kind, uint64_t a, uint64_t b, uint64_t c, const void *bytes, size_t length) {
  char line[160];
  int size = snprintf(line, sizeof line, "%s %llu %llu %llu %zu\n", kind, (unsigned long long)a,
                      (unsigned long long)b, (unsigned long long)c, length);
  put(line, (size_t)size);
  put(bytes, length);
}

static int is_below(const char *path) {
  return log_fd >= 0 && (strncmp(path, root, root_length) == 0 || strncmp(path, root, root_length - 1) == 0);
}

/* The absolute path of what a call names. The program itself never names anything by way of "..". */
static int absolute(int folder, const char *path, char *result) {
  if (log_fd < 0) return 0;
  if (path[0] == '/') {
    snprintf(result, PATH_MAX, "%s", path);
    return is_below(result);
  }
  char place[64], base[PATH_MAX];
  if (folder == AT_FDCWD) {
    if (getcwd(base, sizeof base) == NULL) return 0;
  } else {
    snprintf(place, sizeof place, "/proc/self/fd/%d", folder);
    ssize_t length = readlink(place, base, sizeof base - 1);
    if (length < 0) return 0;
    base[length] = 0;
  }
  snprintf(result, PATH_MAX, "%.2000s/%.2000s", base, path);
  return is_below(result);
}

/* The inode of an open file below the folder; 0 of any other. */
static uint64_t inode_of(int fd) {
  if (log_fd < 0 || fd < 0) return 0;
  char place[64], path[PATH_MAX];
  snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(place, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  if (!is_below(path)) return 0;
  struct stat found;
  return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

static int is_marks(int fd) {
  if (log_fd < 0) return 0;
  char place[64], path[PATH_MAX];
  snprintf(place, sizeof place, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(place, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return strcmp(path, marks) == 0;
}

#define ENTER pthread_mutex_lock(&lock)
#define LEAVE(result) \
  do { \
    int kept = errno; \
    pthread_mutex_unlock(&lock); \
    errno = kept; \
    return result; \
  } while (0)

/* Opening */

static int opened(int (*call)(int, const char *, int, mode_t), int folder, const char *path, int flags, mode_t mode) {
  char whole[PATH_MAX];
  ENTER;
  int below = absolute(folder, path, whole);
  struct stat before;
  int was_there = below && lstat(whole, &before) == 0;
  int fd = call(folder, path, flags, mode);
  if (below && fd >= 0 && (flags & O_ACCMODE) != O_RDONLY) {
    uint64_t inode = inode_of(fd);
    if (!was_there) record("create", inode, 0, 0, whole, strlen(whole));
    else if (flags & O_TRUNC) record("truncate", inode, 0, 0, "", 0);
  }
  LEAVE(fd);
}

static int by_openat(int folder, const char *path, int flags, mode_t mode) {
  REAL(int, openat, int, const char *, int, ...);
  return real_openat(folder, path, flags, mode);
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *path, int flags, ...) { MODE(flags); return opened(by_openat, AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags); return opened(by_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags); return opened(by_openat, folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags); return opened(by_openat, folder, path, flags | O_LARGEFILE, mode); }
int creat(const char *path, mode_t mode) { return opened(by_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

/* Writing */

static void record_write(uint64_t inode, off_t offset, const struct iovec *parts, int count, ssize_t written) {
  if (written <= 0) return;
  char line[160];
  int size = snprintf(line, sizeof line, "write %llu %lld 0 %zd\n", (unsigned long long)inode, (long long)offset, written);
  put(line, (size_t)size);
  for (int part = 0; part < count && written > 0; part++) {
    size_t length = parts[part].iov_len < (size_t)written ? parts[part].iov_len : (size_t)written;
    put(parts[part].iov_base, length);
    written -= (ssize_t)length;
  }
}

static off_t place_of(int fd) {
  struct stat found;
  if ((fcntl(fd, F_GETFL) & O_APPEND) != 0) return fstat(fd, &found) == 0 ? found.st_size : 0;
  return lseek(fd, 0, SEEK_CUR);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  ENTER;
  uint64_t inode = inode_of(fd);
  off_t offset = inode == 0 ? 0 : place_of(fd);
  ssize_t written = really_write(fd, bytes, length);
  if (written > 0 && log_fd >= 0 && (fd == 1 || fd == 2 || is_marks(fd))) record("say", (uint64_t)fd, 0, 0, bytes, (size_t)written);
  if (inode != 0) record_write(inode, offset, &(struct iovec){(void *)bytes, length}, 1, written);
  LEAVE(written);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, writev, int, const struct iovec *, int);
  ENTER;
  uint64_t inode = inode_of(fd);
  off_t offset = inode == 0 ? 0 : place_of(fd);
  ssize_t written = real_writev(fd, parts, count);
  if (inode != 0) record_write(inode, offset, parts, count, written);
  LEAVE(written);
}

static ssize_t pwritten(int fd, const void *bytes, size_t length, off_t offset) {
  REAL(ssize_t, pwrite, int, const void *, size_t, off_t);
  ENTER;
  uint64_t inode = inode_of(fd);
  ssize_t written = real_pwrite(fd, bytes, length, offset);
  if (inode != 0) record_write(inode, offset, &(struct iovec){(void *)bytes, length}, 1, written);
  LEAVE(written);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) { return pwritten(fd, bytes, length, offset); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) { return pwritten(fd, bytes, length, offset); }

static ssize_t pwritten_parts(int fd, const struct iovec *parts, int count, off_t offset) {
  REAL(ssize_t, pwritev, int, const struct iovec *, int, off_t);
  ENTER;
  uint64_t inode = inode_of(fd);
  ssize_t written = real_pwritev(fd, parts, count, offset);
  if (inode != 0) record_write(inode, offset, parts, count, written);
  LEAVE(written);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) { return pwritten_parts(fd, parts, count, offset); }
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) { return pwritten_parts(fd, parts, count, offset); }

/* What the kernel wrote by itself is read back. */
static void record_region(int fd, uint64_t inode, off_t offset, size_t length) {
  char bytes[65536];
  while (length > 0) {
    ssize_t got = pread(fd, bytes, length < sizeof bytes ? length : sizeof bytes, offset);
    if (got <= 0) abort();
    record_write(inode, offset, &(struct iovec){bytes, (size_t)got}, 1, got);
    offset += got;
    length -= (size_t)got;
  }
}

static void unreadable(int fd, uint64_t inode) {
  char path[64];
  REAL(int, open, const char *, int, ...);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  int again = real_open(path, O_RDONLY | O_CLOEXEC);
  struct stat found;
  if (again < 0 || fstat(again, &found) != 0) abort();
  record("truncate", inode, 0, 0, "", 0);
  record_region(again, inode, 0, (size_t)found.st_size);
  close(again);
}

ssize_t copy_file_range(int from, off64_t *from_at, int to, off64_t *to_at, size_t length, unsigned flags) {
  REAL(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned);
  ENTER;
  ssize_t copied = real_copy_file_range(from, from_at, to, to_at, length, flags);
  uint64_t inode = inode_of(to);
  if (copied > 0 && inode != 0) unreadable(to, inode);
  LEAVE(copied);
}

/* Node calls copy_file_range by its number. */
long syscall(long number, ...) {
  va_list rest;
  va_start(rest, number);
  long a[6];
  for (int index = 0; index < 6; index += 1) a[index] = va_arg(rest, long);
  va_end(rest);
  if (number == SYS_copy_file_range)
    return copy_file_range((int)a[0], (off64_t *)a[1], (int)a[2], (off64_t *)a[3], (size_t)a[4], (unsigned)a[5]);
  REAL(long, syscall, long, ...);
  return real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

ssize_t sendfile(int to, int from, off_t *at, size_t length) {
  REAL(ssize_t, sendfile, int, int, off_t *, size_t);
  ENTER;
  ssize_t sent = real_sendfile(to, from, at, length);
  uint64_t inode = inode_of(to);
  if (sent > 0 && inode != 0) unreadable(to, inode);
  LEAVE(sent);
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t length) { return sendfile(to, from, at, length); }

/* A clone of a file (FICLONE) is refused, so that its bytes are copied: not every file system has clones. */
int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  void *argument = va_arg(rest, void *);
  va_end(rest);
  REAL(int, ioctl, int, unsigned long, ...);
  if (request == 0x40049409UL && inode_of(fd) != 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return real_ioctl(fd, request, argument);
}

static int truncated(int fd, off_t length) {
  REAL(int, ftruncate, int, off_t);
  ENTER;
  uint64_t inode = inode_of(fd);
  int result = real_ftruncate(fd, length);
  if (result == 0 && inode != 0) record("truncate", inode, (uint64_t)length, 0, "", 0);
  LEAVE(result);
}

int ftruncate(int fd, off_t length) { return truncated(fd, length); }
int ftruncate64(int fd, off64_t length) { return truncated(fd, length); }

static int allocated(int fd, int mode, off_t offset, off_t length) {
  REAL(int, fallocate, int, int, off_t, off_t);
  ENTER;
  uint64_t inode = inode_of(fd);
  int result = real_fallocate(fd, mode, offset, length);
  if (result == 0 && inode != 0) unreadable(fd, inode);
  LEAVE(result);
}

int fallocate(int fd, int mode, off_t offset, off_t length) { return allocated(fd, mode, offset, length); }
int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return allocated(fd, mode, offset, length); }

/* Syncing */

static int synced(int fd, int (*call)(int)) {
  ENTER;
  uint64_t inode = inode_of(fd);
  int result = call(fd);
  if (result == 0 && inode != 0) record("sync", inode, 0, 0, "", 0);
  LEAVE(result);
}

int fsync(int fd) { REAL(int, fsync, int); return synced(fd, real_fsync); }
int fdatasync(int fd) { REAL(int, fdatasync, int); return synced(fd, real_fdatasync); }

/* Names */

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
  REAL(int, renameat2, int, const char *, int, const char *, unsigned);
  char one[PATH_MAX], other[PATH_MAX], both[2 * PATH_MAX];
  ENTER;
  int below = absolute(from_folder, from, one);
  below = absolute(to_folder, to, other) && below;
  int result = real_renameat2(from_folder, from, to_folder, to, flags);
  if (result == 0 && below) {
    snprintf(both, sizeof both, "%s%s", one, other);
    record("rename", 0, 0, strlen(one), both, strlen(both));
  }
  LEAVE(result);
}

int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return renamed(a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return renamed(a, from, b, to, flags); }

static int removed(int folder, const char *path, int flags) {
  REAL(int, unlinkat, int, const char *, int);
  char whole[PATH_MAX];
  ENTER;
  int below = absolute(folder, path, whole);
  int result = real_unlinkat(folder, path, flags);
  if (result == 0 && below) record("unlink", 0, 0, 0, whole, strlen(whole));
  LEAVE(result);
}

int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) {
  int result = removed(AT_FDCWD, path, 0);
  return result < 0 && (errno == EISDIR || errno == EPERM) ? rmdir(path) : result;
}

static int made(int folder, const char *path, mode_t mode) {
  REAL(int, mkdirat, int, const char *, mode_t);
  char whole[PATH_MAX];
  ENTER;
  int below = absolute(folder, path, whole);
  int result = real_mkdirat(folder, path, mode);
  struct stat found;
  if (result == 0 && below && lstat(whole, &found) == 0) record("mkdir", found.st_ino, 0, 0, whole, strlen(whole));
  LEAVE(result);
}

int mkdirat(int folder, const char *path, mode_t mode) { return made(folder, path, mode); }
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }

char *mkdtemp(char *template) {
  REAL(char *, mkdtemp, char *);
  char whole[PATH_MAX];
  ENTER;
  char *result = real_mkdtemp(template);
  struct stat found;
  if (result != NULL && absolute(AT_FDCWD, result, whole) && lstat(whole, &found) == 0)
    record("mkdir", found.st_ino, 0, 0, whole, strlen(whole));
  LEAVE(result);
}
