#pragma once

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace carya::io {

/// A mounted folder with one file, "stuck.jpg", whose reads are not answered before release(): storage that
/// hangs, as the kernel sees it. mounted() is false where the system allows no mount; the test is skipped
/// then. Source: include/uapi/linux/fuse.h, protocol 7.31.
class StuckFolder {
 public:
  /// `named_s`: for how long the kernel need not ask where the file is. `tells_size`: it answers statfs().
  explicit StuckFolder(std::string content, std::uint64_t named_s = 0, bool tells_size = false)
      : content_(std::move(content)), named_s_(named_s), tells_size_(tells_size) {
    std::string name = (std::filesystem::temp_directory_path() / "carya_stuck_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    device_ = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (device_ < 0) return;
    const std::string options = "fd=" + std::to_string(device_) +
                                ",rootmode=40000,user_id=" + std::to_string(::getuid()) +
                                ",group_id=" + std::to_string(::getgid());
    mounted_ = ::mount("carya", path_.c_str(), "fuse", MS_NODEV | MS_NOSUID, options.c_str()) == 0;
    if (mounted_) server_ = std::thread([this] { serve(); });
  }
  ~StuckFolder() {
    release();
    if (mounted_) {
      ::umount2(path_.c_str(), MNT_FORCE);  // ends the server, even while somebody has the folder open
      ::umount2(path_.c_str(), MNT_DETACH);
    }
    if (server_.joinable()) server_.join();
    if (device_ >= 0) ::close(device_);
    ::rmdir(path_.c_str());
  }
  StuckFolder(const StuckFolder&) = delete;
  StuckFolder& operator=(const StuckFolder&) = delete;

  bool mounted() const { return mounted_; }
  std::string path() const { return path_; }
  std::string file() const { return path_ + "/stuck.jpg"; }
  /// From now on, and for those that wait, reads are answered.
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    for (const Read& read : waiting_) answer(read);
    waiting_.clear();
  }
  /// Until somebody waits for a read.
  void wait_for_read() {
    std::unique_lock lock(mutex_);
    asked_.wait(lock, [&] { return !waiting_.empty() || released_; });
  }

 private:
  struct Read {
    fuse_in_header head;
    fuse_read_in what;
  };
  void serve() {
    std::vector<char> request(1 << 20);
    while (true) {
      const ssize_t got = ::read(device_, request.data(), request.size());
      if (got < 0 && (errno == EINTR || errno == ENOENT || errno == EAGAIN)) continue;
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // unmounted
      fuse_in_header head;
      std::memcpy(&head, request.data(), sizeof head);
      fuse_read_in read{};
      if (head.opcode == FUSE_READ) std::memcpy(&read, request.data() + sizeof head, sizeof read);
      handle(head, read);
    }
  }
  void handle(const fuse_in_header& head, const fuse_read_in& read) {
    const fuse_attr attr{.ino = head.nodeid == FUSE_ROOT_ID ? 1u : 2u,
                         .size = head.nodeid == FUSE_ROOT_ID ? 0 : content_.size(),
                         .mode = head.nodeid == FUSE_ROOT_ID ? S_IFDIR | 0755u : S_IFREG | 0644u,
                         .nlink = 1,
                         .blksize = 4096};
    switch (head.opcode) {
      case FUSE_INIT: {
        const fuse_init_out out{.major = 7, .minor = 31, .max_readahead = 1 << 20, .max_write = 1 << 16};
        return answer(head, &out, sizeof out);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{.nodeid = 2, .entry_valid = named_s_, .attr_valid = 3600, .attr = attr};
        out.attr.ino = 2;
        out.attr.size = content_.size();
        out.attr.mode = S_IFREG | 0644;
        return answer(head, &out, sizeof out);
      }
      case FUSE_GETATTR: {
        const fuse_attr_out out{.attr_valid = 3600, .attr = attr};
        return answer(head, &out, sizeof out);
      }
      case FUSE_OPEN:
      case FUSE_OPENDIR: {
        const fuse_open_out out{.open_flags = FOPEN_DIRECT_IO};
        return answer(head, &out, sizeof out);
      }
      case FUSE_READ: {
        const std::lock_guard lock(mutex_);
        if (released_) return answer({head, read});
        waiting_.push_back({head, read});
        asked_.notify_all();
        return;
      }
      case FUSE_STATFS: {
        const fuse_statfs_out out{.st = {.bsize = 4096, .namelen = 255, .frsize = 4096}};
        return tells_size_ ? answer(head, &out, sizeof out) : answer(head, nullptr, 0, -ENOSYS);
      }
      case FUSE_RELEASE:
      case FUSE_RELEASEDIR:
        return answer(head, nullptr, 0);
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:  // as storage that hangs: a request to end is not heard
        return;
      default:
        return answer(head, nullptr, 0, -ENOSYS);
    }
  }
  void answer(const Read& read) {
    const std::size_t begin = std::min<std::size_t>(read.what.offset, content_.size());
    const std::size_t bytes = std::min<std::size_t>(read.what.size, content_.size() - begin);
    answer(read.head, content_.data() + begin, bytes);
  }
  void answer(const fuse_in_header& head, const void* payload, std::size_t bytes, int error = 0) {
    std::vector<char> out(sizeof(fuse_out_header) + bytes);
    const fuse_out_header header{static_cast<std::uint32_t>(out.size()), error, head.unique};
    std::memcpy(out.data(), &header, sizeof header);
    if (bytes != 0) std::memcpy(out.data() + sizeof header, payload, bytes);
    static_cast<void>(!::write(device_, out.data(), out.size()));
  }

  const std::string content_;
  const std::uint64_t named_s_;
  const bool tells_size_;
  std::string path_;
  int device_ = -1;
  bool mounted_ = false;
  std::mutex mutex_;
  std::condition_variable asked_;
  bool released_ = false;
  std::vector<Read> waiting_;
  std::thread server_;
};

}  // namespace carya::io
