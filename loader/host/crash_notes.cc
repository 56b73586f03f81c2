#include "loader/host/crash_notes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include "base/hash.h"

namespace carya::loader {
namespace {

constexpr std::uint32_t kMagic = 0x48535243;  // "CRSH"
constexpr std::uint32_t kEntries = 128;
constexpr std::size_t kStackBytes = 64 << 10;
constexpr int kOpen = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
constexpr int kCrashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};

/// In the file.
struct Entry {
  std::uint32_t magic = kMagic;
  std::uint32_t number = 0;  ///< one more than that of the crash before; its place is its rest by kEntries
  std::uint64_t work = 0;
  std::int64_t at_s = 0;
  std::uint32_t version = 0;
  std::int32_t signal = 0;
};
static_assert(sizeof(Entry) * kEntries == CrashNotes::kBytes);

thread_local std::uint64_t t_work = 0;

// Of this process, for the handler.
std::atomic<bool> g_catches = false;
int g_file = -1;
char g_path[PATH_MAX] = "";  // where there is no g_file
std::atomic<std::uint32_t> g_next = 0;
std::uint32_t g_version = 0;

/// Who has run over the end of its stack needs another one to say so. A thread that has one already, as a sanitizer gives
/// it, keeps that.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t there{};
    if (sigaltstack(nullptr, &there) != 0 || (there.ss_flags & SS_DISABLE) == 0) return;
    memory_.reset(new std::byte[kStackBytes]);
    const stack_t stack{.ss_sp = memory_.get(), .ss_flags = 0, .ss_size = kStackBytes};
    sigaltstack(&stack, nullptr);
  }
  ~HandlerStack() {
    if (!memory_) return;
    const stack_t none{.ss_sp = nullptr, .ss_flags = SS_DISABLE, .ss_size = 0};
    sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  std::unique_ptr<std::byte[]> memory_;
};

/// Calls the kernel only. What an operator sends to the process (kill) is noted and blamed on nobody.
void note_crash(int signal, siginfo_t* info, void*) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const bool sent = info->si_code == SI_USER || info->si_code == SI_QUEUE;
  const Entry entry{.number = g_next.fetch_add(1),
                    .work = sent ? 0 : t_work,
                    .at_s = now.tv_sec,
                    .version = g_version,
                    .signal = signal};
  const int file = g_file >= 0 ? g_file : ::open(g_path, O_WRONLY | kOpen | O_CREAT, 0600);
  const auto at = static_cast<off_t>(entry.number % kEntries * sizeof(entry));
  static_cast<void>(!pwrite(file, &entry, sizeof(entry), at));
  raise(signal);  // its handler is the kernel's again; it comes when this one returns
}

}  // namespace

WorkFor::WorkFor(std::uint64_t work) : before_(t_work) {
  t_work = work;
  if (g_catches.load(std::memory_order_relaxed)) static const thread_local HandlerStack stack;
}

std::uint64_t WorkFor::current() {
  return t_work;
}

WorkFor::~WorkFor() {
  t_work = before_;
}

Result<std::shared_ptr<CrashNotes>> CrashNotes::open(const std::string& path, const std::string& version) {
  const std::string subject = "notes of crashes: " + path;
  if (path.size() >= sizeof(g_path)) return fail(Code::kInvalidArgument, subject + ": is too long");
  UniqueFd file(::open(path.c_str(), O_RDONLY | kOpen));
  if (!file && errno != ENOENT) return fail_errno(subject, errno);
  if (struct stat facts{}; file) {
    if (fstat(file.get(), &facts) != 0) return fail_errno(subject, errno);
    if (!S_ISREG(facts.st_mode) || facts.st_uid != geteuid())
      return fail(Code::kInvalidArgument, subject + ": is no file of this user; remove it");
  }
  ASSIGN(auto notes, read(std::move(file), version));
  notes->file_.reset();
  notes->path_ = path;
  return notes;
}

Result<std::shared_ptr<CrashNotes>> CrashNotes::read(UniqueFd file, const std::string& version) {
  auto notes = std::shared_ptr<CrashNotes>(new CrashNotes);
  notes->version_ = static_cast<std::uint32_t>(hash64(version));
  Entry entries[kEntries];
  std::memset(static_cast<void*>(entries), 0, sizeof(entries));
  if (file && pread(file.get(), entries, sizeof(entries), 0) < 0)
    return fail_errno("notes of crashes", errno);
  for (const Entry& entry : entries) {
    if (entry.magic != kMagic || std::ranges::find(kCrashes, entry.signal) == std::end(kCrashes)) continue;
    notes->next_ = std::max(notes->next_, entry.number + 1);
    if (entry.version == notes->version_) notes->crashes_.push_back({entry.work, entry.at_s, entry.signal});
  }
  std::ranges::sort(notes->crashes_, std::ranges::greater(), &Crash::at_s);
  notes->file_ = std::move(file);
  return notes;
}

void CrashNotes::catch_crashes() {
  g_version = version_;
  g_next = next_;
  g_file = file_ ? file_.get() : -1;
  path_.copy(g_path, sizeof(g_path) - 1);
  g_catches = true;
  for (const int signal : kCrashes) {
    struct sigaction there{};
    if (sigaction(signal, nullptr, &there) != 0 || there.sa_handler != SIG_DFL) continue;
    struct sigaction ours{};
    ours.sa_sigaction = note_crash;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | static_cast<int>(SA_RESETHAND);
    sigaction(signal, &ours, nullptr);
  }
}

std::optional<Crash> CrashNotes::recent(std::uint64_t work, std::int64_t now_s) const {
  const auto found = std::ranges::find_if(crashes_, [&](const Crash& crash) {
    return work != 0 && crash.work == work && crash.is_recent(now_s);
  });
  return found == crashes_.end() ? std::nullopt : std::optional(*found);
}

std::string signal_name(int signal) {
  return fmt::format("signal {} ({})", signal, strsignal(signal));
}

}  // namespace carya::loader
