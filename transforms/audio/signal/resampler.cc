#include "transforms/audio/signal/resampler.h"

#include <soxr.h>

#include <algorithm>
#include <string>

#include "transforms/audio/codec/shared_library.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kKeptMax = 4;

struct SoxrLibrary {
  decltype(&soxr_create) create;
  decltype(&soxr_delete) destroy;
  decltype(&soxr_process) process;
  decltype(&soxr_clear) clear;
  decltype(&soxr_io_spec) io_spec;
  decltype(&soxr_quality_spec) quality_spec;
  decltype(&soxr_runtime_spec) runtime_spec;
};

Result<SoxrLibrary> load_soxr() {
  ASSIGN(SharedLibrary library, SharedLibrary::load("resample", {"libsoxr.so.0"}, "libsoxr0"));
  SoxrLibrary soxr{};
  library.take("soxr_create", soxr.create);
  library.take("soxr_delete", soxr.destroy);
  library.take("soxr_process", soxr.process);
  library.take("soxr_clear", soxr.clear);
  library.take("soxr_io_spec", soxr.io_spec);
  library.take("soxr_quality_spec", soxr.quality_spec);
  library.take("soxr_runtime_spec", soxr.runtime_spec);
  TRY(library.complete());
  return soxr;
}

Result<void*> create(const SoxrLibrary& soxr, std::int64_t from_rate, std::int64_t to_rate) {
  const soxr_io_spec_t io = soxr.io_spec(SOXR_FLOAT32_I, SOXR_FLOAT32_I);
  const soxr_quality_spec_t quality = soxr.quality_spec(SOXR_HQ, 0);
  const soxr_runtime_spec_t runtime = soxr.runtime_spec(1);
  soxr_error_t error = nullptr;
  soxr_t made = soxr.create(static_cast<double>(from_rate), static_cast<double>(to_rate), 1, &error, &io,
                            &quality, &runtime);
  if (made == nullptr || error != nullptr)
    return fail(Code::kExhausted, std::string("resample: soxr: ") + (error != nullptr ? error : "no memory"));
  return made;
}

}  // namespace

std::int64_t resampled_frames(std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate) {
  return (2 * frames * to_rate + from_rate) / (2 * from_rate);
}

Resampler::~Resampler() {
  for (const Kept& kept : kept_) (*loaded_once<load_soxr>())->destroy(static_cast<soxr_t>(kept.soxr));
}

Status Resampler::run(const float* in, std::int64_t frames, std::int64_t from_rate, std::int64_t to_rate,
                      float* out) {
  ASSIGN(const SoxrLibrary* library, loaded_once<load_soxr>());
  auto kept = std::ranges::find_if(
      kept_, [&](const Kept& k) { return k.from_rate == from_rate && k.to_rate == to_rate; });
  if (kept == kept_.end()) {
    ASSIGN(void* const made, create(*library, from_rate, to_rate));
    if (kept_.size() == kKeptMax) {
      library->destroy(static_cast<soxr_t>(kept_.front().soxr));
      kept_.erase(kept_.begin());
    }
    kept = kept_.insert(kept_.end(), {from_rate, to_rate, made});
  }
  auto* const soxr = static_cast<soxr_t>(kept->soxr);
  const auto wanted = static_cast<std::size_t>(resampled_frames(frames, from_rate, to_rate));
  std::size_t used = 0;
  std::size_t done = 0;
  const char* error = nullptr;
  // A call takes no more input than makes the output asked for, rounded; after the last of it, what the filter holds.
  while (error == nullptr && done < wanted) {
    const std::size_t left = static_cast<std::size_t>(frames) - used;
    std::size_t taken = 0;
    std::size_t made = 0;
    error = library->process(soxr, left > 0 ? in + used : nullptr, left, &taken, out + done, wanted - done,
                             &made);
    if (taken == 0 && made == 0) break;
    used += taken;
    done += made;
  }
  std::fill(out + done, out + wanted, 0.0F);
  if (error == nullptr) error = library->clear(soxr);
  if (error != nullptr) return fail(Code::kExhausted, std::string("resample: soxr: ") + error);
  return {};
}

}  // namespace carya::transforms
