#include "io/sources/folder_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <memory>
#include <thread>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "io/files/open_failure.h"
#include "io/files/source_folder.h"

namespace carya::io {
namespace {

constexpr std::size_t kDirentBytes = 1 << 17;

/// Identities of a directory and those above it, to know a loop.
struct Ancestry {
  dev_t device;
  ino_t inode;
  std::shared_ptr<const Ancestry> above;
};

struct Pending {
  std::string path;
  std::shared_ptr<const Ancestry> above;
};

struct Entry {
  std::uint64_t inode;
  std::uint64_t name_at;
  std::uint64_t name_bytes;
  unsigned char type;
};

std::string joined(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "/" + std::string(name);
}

/// Reads one directory; what it finds goes to `found` and `below`.
class DirectoryReader {
 public:
  DirectoryReader(int root, const std::string& root_path, std::uint64_t resolve, WalkedDirectory* found,
                  std::vector<Pending>* below)
      : root_(root), root_path_(root_path), resolve_(resolve), found_(*found), below_(*below) {}
  Status read(const Pending& pending);

 private:
  Status open(const Pending& pending);
  Status read_entries();
  Status look_at(const Entry& entry);
  void skip(std::string_view name);
  std::string shown(std::string_view name) const { return root_path_ + "/" + joined(found_.path, name); }

  Status look_through(const std::string& name, struct stat& status) const;

  const int root_;
  const std::string& root_path_;
  const std::uint64_t resolve_;
  WalkedDirectory& found_;
  std::vector<Pending>& below_;
  UniqueFd fd_;
  std::shared_ptr<const Ancestry> self_;
  std::vector<Entry> entries_;
};

Status DirectoryReader::open(const Pending& pending) {
  found_.path = pending.path;
  const char* path = pending.path.empty() ? "." : pending.path.c_str();
  const int fd = open_resolved(root_, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, resolve_);
  if (fd < 0) return fail_open(root_path_ + "/" + pending.path, -fd);
  fd_.reset(fd);
  struct stat status;
  if (::fstat(fd_.get(), &status) != 0) return fail_errno(root_path_ + "/" + pending.path, errno);
  found_.stamp = stamp_of(status);
  for (const Ancestry* above = pending.above.get(); above != nullptr; above = above->above.get()) {
    if (above->device == status.st_dev && above->inode == status.st_ino) {
      return fail(Code::kInvalidArgument, root_path_ + "/" + pending.path +
                                              ": the link leads back to a folder above it; remove the link");
    }
  }
  self_ = std::make_shared<const Ancestry>(Ancestry{status.st_dev, status.st_ino, pending.above});
  return {};
}

Status DirectoryReader::read_entries() {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(kDirentBytes);
  for (;;) {
    const long bytes = ::syscall(SYS_getdents64, fd_.get(), buffer.get(), kDirentBytes);
    if (bytes < 0) return fail_errno("list " + root_path_ + "/" + found_.path, errno);
    if (bytes == 0) return {};
    for (long at = 0; at < bytes;) {
      const auto* item = reinterpret_cast<const dirent64*>(buffer.get() + at);
      at += item->d_reclen;
      const std::string_view name(item->d_name);
      if (name == "." || name == "..") continue;
      entries_.push_back({item->d_ino, found_.names.size(), name.size(), item->d_type});
      found_.names.append(name);
    }
  }
}

void DirectoryReader::skip(std::string_view name) {
  ++found_.skipped_count;
  if (found_.skipped_examples.size() < kSkippedExamplesMax)
    found_.skipped_examples.push_back(joined(found_.path, name));
}

/// What an entry is, behind links.
Status DirectoryReader::look_through(const std::string& name, struct stat& status) const {
  if (resolve_ == 0) {
    if (::fstatat(fd_.get(), name.c_str(), &status, 0) == 0) return {};
    return fail_open(shown(name), errno);
  }
  const int fd = open_resolved(root_, joined(found_.path, name).c_str(), O_PATH | O_CLOEXEC, resolve_);
  if (fd < 0) return fail_open(shown(name), -fd);
  const UniqueFd entry(fd);
  if (::fstat(fd, &status) != 0) return fail_errno(shown(name), errno);
  return {};
}

Status DirectoryReader::look_at(const Entry& entry) {
  const std::string name = found_.names.substr(entry.name_at, entry.name_bytes);
  if (entry.type == DT_DIR) {
    below_.push_back({joined(found_.path, name), self_});
    return {};
  }
  const bool at_root = found_.path.empty();  // files beside the classes belong to none
  const bool wanted = !at_root && is_image_name(name);
  const bool unclear = entry.type == DT_LNK || entry.type == DT_UNKNOWN;
  if (!unclear && !(wanted && entry.type == DT_REG)) {
    skip(name);
    return {};
  }
  struct stat status;
  if (Status seen = look_through(name, status); !seen) {
    if (seen.error().code == Code::kNotFound && !wanted) {
      skip(name);
      return {};
    }
    return seen;
  }
  if (S_ISDIR(status.st_mode)) {
    below_.push_back({joined(found_.path, name), self_});
  } else if (wanted && S_ISREG(status.st_mode)) {
    const SourceStamp stamp = stamp_of(status);
    found_.files.push_back({entry.name_at, entry.name_bytes, stamp.bytes, stamp.mtime_ns});
  } else {
    skip(name);
  }
  return {};
}

Status DirectoryReader::read(const Pending& pending) {
  TRY(open(pending));
  TRY(read_entries());
  // By inode: on disks that keep inodes in that order a cold listing then reads each block once.
  std::ranges::sort(entries_, {}, &Entry::inode);
  for (const Entry& entry : entries_) TRY(look_at(entry));
  std::ranges::sort(found_.files, {},
                    [this](const WalkedDirectory::File& file) { return found_.name(file); });
  std::ranges::sort(found_.skipped_examples);
  return {};
}

/// The directories still to be read, shared by the threads.
class Walk {
 public:
  Walk(int root, const std::string& root_path, std::uint64_t resolve, ListingProgress& progress)
      : root_(root), root_path_(root_path), resolve_(resolve), progress_(progress) {
    todo_.push_back({"", nullptr});
  }

  void run() {
    MutexLock lock(mutex_);
    for (;;) {
      while (!ending() && todo_.empty() && busy_ > 0) changed_.wait(lock);
      if (ending() || todo_.empty()) break;
      const Pending pending = std::move(todo_.front());
      todo_.pop_front();
      ++busy_;
      lock.unlock();
      WalkedDirectory found;
      std::vector<Pending> below;
      Status status = DirectoryReader(root_, root_path_, resolve_, &found, &below).read(pending);
      const bool go_on = progress_.add(found.files.size() + found.skipped_count);
      lock.lock();
      --busy_;
      stopped_ = stopped_ || !go_on;
      if (!status && !error_) error_ = std::move(status.error());
      todo_.insert(todo_.end(), std::make_move_iterator(below.begin()), std::make_move_iterator(below.end()));
      done_.push_back(std::move(found));
      changed_.notify_all();
    }
    changed_.notify_all();
  }

  /// After all run() have ended.
  Result<std::vector<WalkedDirectory>> take() {
    const MutexLock lock(mutex_);
    if (stopped_) return listing_stopped();
    if (error_) return std::unexpected(std::move(*error_));
    return std::move(done_);
  }

 private:
  bool ending() const REQUIRES(mutex_) { return stopped_ || error_.has_value(); }

  const int root_;
  const std::string& root_path_;
  const std::uint64_t resolve_;
  ListingProgress& progress_;
  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Pending> todo_ GUARDED_BY(mutex_);
  std::vector<WalkedDirectory> done_ GUARDED_BY(mutex_);
  std::optional<Error> error_ GUARDED_BY(mutex_);
  unsigned busy_ GUARDED_BY(mutex_) = 0;
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace

bool is_image_name(std::string_view name) {
  // Those of torchvision's that decode_image takes; a file of another format is named as skipped when the
  // folder is listed, and not an error in the middle of an epoch.
  static constexpr std::array<std::string_view, 3> kExtensions = {".jpg", ".jpeg", ".png"};
  return std::ranges::any_of(kExtensions, [name](std::string_view extension) {
    if (name.size() < extension.size()) return false;
    const std::string_view tail = name.substr(name.size() - extension.size());
    return std::ranges::equal(tail, extension,
                              [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
  });
}

Result<std::vector<WalkedDirectory>> walk_folder(const std::string& root, unsigned threads,
                                                 ListingProgress& progress, bool beneath) {
  UniqueFd fd;
  if (beneath) {
    ASSIGN(fd, open_real_folder(root, O_RDONLY));
  } else {
    fd.reset(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  }
  if (!fd) return fail_open(root, errno);
  Walk walk(fd.get(), root, beneath ? beneath_flags() : 0, progress);
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) {
    try {
      others.emplace_back([&walk] { walk.run(); });
    } catch (const std::system_error&) {
      break;  // fewer threads, same result
    }
  }
  walk.run();
  for (std::thread& thread : others) thread.join();
  if (!progress.tell()) return listing_stopped();
  ASSIGN(auto directories, walk.take());
  std::ranges::sort(directories, [](const WalkedDirectory& a, const WalkedDirectory& b) {
    const int by_class = a.class_name().compare(b.class_name());
    return by_class != 0 ? by_class < 0 : a.path < b.path;
  });
  return directories;
}

}  // namespace carya::io
