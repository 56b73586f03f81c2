#define FUSE_USE_VERSION 31

#include "tests/faults/faulty_storage.h"

#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/hash.h"

namespace carya::faults {
namespace {

constexpr off_t kCutBytes = 200;

std::string source_folder;
FaultyStorage::Control* control = nullptr;

std::string real_path(const char* path) {
  return source_folder + path;
}
bool is_now(StorageFault fault) {
  return control->fault == static_cast<std::uint32_t>(fault);
}

int get_attributes(const char* path, struct stat* info, fuse_file_info*) {
  if (lstat(real_path(path).c_str(), info) != 0) return -errno;
  if (S_ISREG(info->st_mode) && is_now(StorageFault::kResized)) {
    info->st_size -= std::min<off_t>(info->st_size, kCutBytes);
    ++control->spoilt;
  }
  return 0;
}
int list_folder(const char* path, void* out, fuse_fill_dir_t fill, off_t, fuse_file_info*,
                fuse_readdir_flags) {
  DIR* folder = opendir(real_path(path).c_str());
  if (folder == nullptr) return -errno;
  while (const dirent* entry = readdir(folder)) fill(out, entry->d_name, nullptr, 0, fuse_fill_dir_flags{});
  closedir(folder);
  return 0;
}
int open_file(const char* path, fuse_file_info* info) {
  const int fd = open(real_path(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -errno;
  info->fh = static_cast<std::uint64_t>(fd);
  info->direct_io = 1;  // each read of the daemon comes here
  return 0;
}
int release_file(const char*, fuse_file_info* info) {
  close(static_cast<int>(info->fh));
  return 0;
}
int read_file(const char* path, char* out, std::size_t bytes, off_t offset, fuse_file_info* info) {
  const std::uint64_t number = ++control->reads;
  if (is_now(StorageFault::kDead) || (is_now(StorageFault::kError) && number % 3 == 0)) {
    ++control->spoilt;
    return -EIO;
  }
  if (is_now(StorageFault::kSlow) && hash64(std::string_view(path)) % 7 == 0) {
    ++control->spoilt;
    usleep(2'000'000);
  }
  if (is_now(StorageFault::kShort) && bytes > 1) {
    ++control->spoilt;
    bytes = (bytes + 1) / 2;
  }
  if (is_now(StorageFault::kResized)) {
    struct stat now{};
    if (fstat(static_cast<int>(info->fh), &now) != 0) return -errno;
    const off_t left = std::max<off_t>(0, now.st_size - kCutBytes - offset);
    bytes = std::min(bytes, static_cast<std::size_t>(left));
    ++control->spoilt;
  }
  const ssize_t got = pread(static_cast<int>(info->fh), out, bytes, offset);
  return got < 0 ? -errno : static_cast<int>(got);
}

FaultyStorage::Control* map_control(int fd) {
  void* mapped = mmap(nullptr, sizeof(FaultyStorage::Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<FaultyStorage::Control*>(mapped);
}

}  // namespace

int run_storage_server(const std::vector<std::string>& words) {
  if (words.size() != 3) return 2;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  source_folder = words[0];
  control = map_control(std::stoi(words[2]));
  if (control == nullptr) return 2;
  fuse_operations operations{};
  operations.getattr = get_attributes;
  operations.readdir = list_folder;
  operations.open = open_file;
  operations.release = release_file;
  operations.read = read_file;
  // Sizes are asked for each time, since a fault changes them; names stay. Else each open() takes the folder's lock in the
  // kernel, for which some hundred reading threads spin.
  std::string text[] = {"faults", "-f", "-o", "attr_timeout=0,entry_timeout=3600,max_threads=8", words[1]};
  std::vector<char*> argv;
  for (std::string& word : text) argv.push_back(word.data());
  return fuse_main(static_cast<int>(argv.size()), argv.data(), &operations, nullptr);
}

Result<std::unique_ptr<FaultyStorage>> FaultyStorage::mount(const std::string& source) {
  auto storage = std::unique_ptr<FaultyStorage>(new FaultyStorage());
  std::string pattern = (std::filesystem::temp_directory_path() / "carya-storage-XXXXXX").string();
  storage->path_ = mkdtemp(pattern.data());
  const int fd = memfd_create("carya-storage", 0);
  if (fd < 0 || ftruncate(fd, sizeof(Control)) != 0) return fail_errno("storage", errno);
  storage->control_ = map_control(fd);
  if (storage->control_ == nullptr) return fail_errno("storage", errno);
  const std::string number = std::to_string(fd);
  storage->server_ = fork();
  if (storage->server_ == 0) {
    execl("/proc/self/exe", "faults", "--storage-server", source.c_str(), storage->path_.c_str(),
          number.c_str(), nullptr);
    _exit(127);
  }
  close(fd);
  struct stat outside{}, inside{};
  stat(std::filesystem::temp_directory_path().c_str(), &outside);
  for (int i = 0; i < 5'000; ++i, usleep(1'000)) {
    if (stat(storage->path_.c_str(), &inside) == 0 && inside.st_dev != outside.st_dev) return storage;
    if (waitpid(storage->server_, nullptr, WNOHANG) == storage->server_) break;
  }
  storage->server_ = -1;
  return fail(Code::kUnsupported, "nothing may be mounted here (FUSE)");
}

FaultyStorage::~FaultyStorage() {
  if (control_ != nullptr) set(StorageFault::kNone);
  if (server_ > 0) {
    kill(server_, SIGTERM);  // it unmounts
    waitpid(server_, nullptr, 0);
  }
  umount2(path_.c_str(), MNT_DETACH);
  rmdir(path_.c_str());
}

}  // namespace carya::faults
