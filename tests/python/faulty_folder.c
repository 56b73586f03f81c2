// faulty_folder SOURCE MOUNT CONTROL: shows a folder through FUSE, and fails as the file CONTROL says, which others map.
// Every call comes here: nothing is kept by the kernel.
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <signal.h>
#include <unistd.h>

static struct {
  _Atomic uint64_t changes_from;   // the number, from 1, of the first call that changes something and fails; 0: none does
  _Atomic uint64_t changes_errno;  // with what
  _Atomic uint64_t reads_from;     // the same of reads
  _Atomic uint64_t reads_errno;
  _Atomic uint64_t hangs;    // while it is not 0 no call of either kind is answered
  _Atomic uint64_t changes;  // calls so far
  _Atomic uint64_t reads;
  _Atomic uint64_t spoilt;  // of these, those that failed or hung
  _Atomic uint64_t delay_us;  // that each of either kind takes, one after the other
} *control;
static int source;
static pthread_mutex_t delaying = PTHREAD_MUTEX_INITIALIZER;

static const char* below(const char* path) {
  return path[1] == 0 ? "." : path + 1;
}
static int answer(long result) {
  return result < 0 ? -errno : (int)result;
}
static int fails(_Atomic uint64_t* count, _Atomic uint64_t* from, _Atomic uint64_t* code) {
  const uint64_t number = ++*count;
  if (control->hangs != 0) {
    ++control->spoilt;
    while (control->hangs != 0) usleep(5000);
  }
  if (control->delay_us != 0) {
    pthread_mutex_lock(&delaying);
    usleep((useconds_t)control->delay_us);
    pthread_mutex_unlock(&delaying);
  }
  if (*from == 0 || number < *from) return 0;
  ++control->spoilt;
  return -(int)*code;
}
#define CHANGES                                                                                        \
  {                                                                                                    \
    const int failed = fails(&control->changes, &control->changes_from, &control->changes_errno);      \
    if (failed != 0) return failed;                                                                    \
  }

static int get_attributes(const char* path, struct stat* info, struct fuse_file_info* file) {
  (void)file;
  return answer(fstatat(source, below(path), info, AT_SYMLINK_NOFOLLOW));
}
static int list(const char* path, void* out, fuse_fill_dir_t fill, off_t at, struct fuse_file_info* file,
                enum fuse_readdir_flags flags) {
  (void)at, (void)file, (void)flags;
  DIR* folder = fdopendir(openat(source, below(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder == NULL) return -errno;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) fill(out, entry->d_name, NULL, 0, 0);
  closedir(folder);
  return 0;
}
static int make_folder(const char* path, mode_t mode) {
  CHANGES
  return answer(mkdirat(source, below(path), mode));
}
static int open_as(const char* path, int flags, mode_t mode, struct fuse_file_info* info) {
  const int fd = openat(source, below(path), flags | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  info->fh = (uint64_t)fd;
  info->direct_io = 1;
  return 0;
}
static int create_file(const char* path, mode_t mode, struct fuse_file_info* info) {
  CHANGES
  return open_as(path, info->flags | O_CREAT, mode, info);
}
static int open_file(const char* path, struct fuse_file_info* info) {
  return open_as(path, info->flags & ~(O_CREAT | O_EXCL), 0, info);
}
static int release_file(const char* path, struct fuse_file_info* info) {
  (void)path;
  return answer(close((int)info->fh));
}
static int read_file(const char* path, char* out, size_t bytes, off_t at, struct fuse_file_info* info) {
  (void)path;
  const int failed = fails(&control->reads, &control->reads_from, &control->reads_errno);
  return failed != 0 ? failed : answer(pread((int)info->fh, out, bytes, at));
}
static int write_file(const char* path, const char* from, size_t bytes, off_t at, struct fuse_file_info* info) {
  (void)path;
  CHANGES
  return answer(pwrite((int)info->fh, from, bytes, at));
}
static int set_length(const char* path, off_t bytes, struct fuse_file_info* info) {
  CHANGES
  if (info != NULL) return answer(ftruncate((int)info->fh, bytes));
  const int fd = openat(source, below(path), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  const int done = answer(ftruncate(fd, bytes));
  close(fd);
  return done;
}
static int remove_file(const char* path) {
  CHANGES
  return answer(unlinkat(source, below(path), 0));
}
static int remove_folder(const char* path) {
  CHANGES
  return answer(unlinkat(source, below(path), AT_REMOVEDIR));
}
static int rename_file(const char* from, const char* to, unsigned flags) {
  CHANGES
  return answer(renameat2(source, below(from), source, below(to), flags));
}
static int set_times(const char* path, const struct timespec times[2], struct fuse_file_info* info) {
  (void)info;
  CHANGES
  return answer(utimensat(source, below(path), times, 0));
}
static int set_mode(const char* path, mode_t mode, struct fuse_file_info* info) {
  (void)info;
  CHANGES
  return answer(fchmodat(source, below(path), mode, 0));
}
static int tell_room(const char* path, struct statvfs* info) {
  (void)path;
  return answer(fstatvfs(source, info));
}

int main(int count, char** words) {
  if (count != 4) return 2;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  source = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int fd = open(words[3], O_RDWR | O_CLOEXEC);
  control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (source < 0 || control == MAP_FAILED) return 2;
  umask(0);
  const struct fuse_operations operations = {.getattr = get_attributes,
                                             .readdir = list,
                                             .mkdir = make_folder,
                                             .create = create_file,
                                             .open = open_file,
                                             .release = release_file,
                                             .read = read_file,
                                             .write = write_file,
                                             .truncate = set_length,
                                             .unlink = remove_file,
                                             .rmdir = remove_folder,
                                             .rename = rename_file,
                                             .utimens = set_times,
                                             .chmod = set_mode,
                                             .statfs = tell_room};
  char* given[] = {words[0], "-f", "-o", "attr_timeout=0,entry_timeout=0,negative_timeout=0,max_threads=8", words[2], NULL};
  return fuse_main(5, given, &operations, NULL);
}
