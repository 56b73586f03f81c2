// storage_faults: the daemon reads photos from storage that fails. The stream retries and goes on as if
// nothing had been; when it lasts, readers get kIo, under the policy `mask` too. Gives 77 where nothing may
// be mounted.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "loader/control/daemon_stream.h"
#include "tests/faults/faulty_storage.h"
#include "tests/faults/host.h"
#include "tests/faults/trainer.h"

namespace carya::faults {
namespace {

struct Spell {
  StorageFault fault;
  const char* name;
};
constexpr Spell kSpells[] = {{StorageFault::kError, "EIO"},
                             {StorageFault::kShort, "short reads"},
                             {StorageFault::kSlow, "2 s delays"},
                             {StorageFault::kResized, "other sizes"}};

/// The fault for a moment in which it is seen; all ranks go on with the rows of the undisturbed stream.
Status pass_spell(Host& host, FaultyStorage& storage, const Spell& spell) {
  TRY(host.wait_progress(2));
  const std::uint64_t before = storage.spoilt();
  storage.set(spell.fault);
  for (int i = 0; i < 10'000 && storage.spoilt() < before + 20; ++i) usleep(1'000);
  storage.set(StorageFault::kNone);
  if (storage.spoilt() == before) return fail(Code::kCorrupt, "the fault had no effect");
  std::printf("%s: %llu spoilt\n", spell.name, static_cast<unsigned long long>(storage.spoilt() - before));
  TRY(host.wait_progress(kSteps * 2));
  const std::string left = host.leaks();
  return left.empty() ? Status() : fail(Code::kExhausted, "left over: " + left);
}

/// Storage that stays dead for longer than a job's io_timeout ends that job with kIo: never with masked rows.
/// The others, which are more patient, go on.
Status outlast_timeout(Host& host, FaultyStorage& storage, transforms::OnError policy) {
  loader::JobOptions options = rank_options(0);
  options.on_error = policy;
  options.io_timeout_s = 0.5;
  loader::DaemonOptions daemon;
  daemon.socket = host.socket();
  daemon.job = "impatient";
  ASSIGN(const auto pipeline, transforms::Pipeline::parse(pipeline_text(host.photos())));
  ASSIGN(const auto job, loader::Job::create(loader::attach_to_daemon(pipeline, options, daemon), options));
  storage.set(StorageFault::kDead);
  Result<loader::Batch> batch = job->next(60'000);
  while (batch || batch.error().code == Code::kCorrupt) {
    if (!batch) TRY(job->set_on_error(transforms::OnError::kMask));  // the one that is broken indeed
    batch = job->next(60'000);
  }
  storage.set(StorageFault::kNone);
  if (batch.error().code != Code::kIo) return fail(Code::kCorrupt, "not kIo: " + batch.error().message);
  job->close();
  return host.wait_progress(kSteps);
}

int run() {
  const loader::PhotoFolder photos(static_cast<int>(kRecords));
  photos.spoil(31);
  auto storage = FaultyStorage::mount(photos.path().string());
  if (!storage) {
    std::printf("skipped: %s\n", storage.error().message.c_str());
    return 77;
  }
  Host host((*storage)->path());
  Status good = host.start();
  if (good && !host.leaks().empty()) good = fail(Code::kExhausted, "left over before any fault");
  for (const Spell& spell : kSpells) {
    if (!good) break;
    good = pass_spell(host, **storage, spell);
    if (!good) std::printf("%s: ", spell.name);
  }
  for (const auto policy :
       {transforms::OnError::kRaise, transforms::OnError::kReplace, transforms::OnError::kMask})
    if (good) good = outlast_timeout(host, **storage, policy);
  if (!good) {
    std::printf("FAILED %s\n%s", good.error().message.c_str(), host.log_tail().c_str());
    return 1;
  }
  std::printf("%llu batches, each that of the undisturbed stream\n",
              static_cast<unsigned long long>(host.verified()));
  return 0;
}

}  // namespace
}  // namespace carya::faults

int main(int argc, char** argv) {
  using namespace carya::faults;  // NOLINT(google-build-using-namespace): a program's own file
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--trainer") return run_trainer({words.begin() + 1, words.end()});
  if (!words.empty() && words[0] == "--storage-server")
    return run_storage_server({words.begin() + 1, words.end()});
  return run();
}
