#include "loader/plan/profile_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "io/files/manifest_file.h"
#include "loader/host/host.h"
#include "transforms/simd/targets.h"

namespace carya::loader {
namespace {

using Json = nlohmann::json;
using transforms::OpProfile;

constexpr int kVersion = 1;
constexpr std::size_t kFileBytesMax = 256 << 10;
constexpr std::size_t kNameBytesMax = 1024;
/// Of one order of a kept profile: two seconds of a new stream weigh as much.
constexpr std::uint64_t kKeptSamples = 64;

constexpr std::pair<const char*, std::uint64_t OpProfile::*> kSums[] = {
    {"samples", &OpProfile::samples},     {"timed", &OpProfile::timed_samples},
    {"cpu_ns", &OpProfile::cpu_ns},       {"bytes_in", &OpProfile::bytes_in},
    {"bytes_out", &OpProfile::bytes_out}, {"pictures", &OpProfile::pictures},
    {"height", &OpProfile::height},       {"width", &OpProfile::width}};

std::unexpected<Error> damaged(const std::string& path, const std::string& what) {
  return fail(Code::kCorrupt, "profile " + path + ": " + what);
}

Result<std::string> read_small_file(const std::string& path) {
  // Not blocking: somebody may have put a pipe there.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return fail_errno("open " + path, errno);
  struct stat status;
  if (::fstat(fd.get(), &status) != 0) return fail_errno("stat " + path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size > static_cast<off_t>(kFileBytesMax))
    return damaged(path, fmt::format("no file of at most {} KiB", kFileBytesMax >> 10));
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t step = ::read(fd.get(), text.data() + have, text.size() - have);
    if (step < 0 && errno == EINTR) continue;
    if (step < 0) return fail_errno("read " + path, errno);
    if (step == 0) break;
    have += static_cast<std::size_t>(step);
  }
  text.resize(have);
  return text;
}

bool read_number(const Json& object, const char* name, std::uint64_t& number) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number_unsigned()) return false;
  number = found->get<std::uint64_t>();
  return true;
}

std::uint64_t time_to(std::int64_t at_s) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(at_s, 0));
}

/// Not later than now.
std::int64_t time_from(std::uint64_t at, std::int64_t now_s) {
  return static_cast<std::int64_t>(std::min(at, time_to(now_s)));
}

template <typename Number>
bool read_indices(const Json& object, const char* name, std::vector<Number>& out) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array() || found->size() > autotune::kChainOpsMax) return false;
  for (const Json& index : *found) {
    if (!index.is_number_unsigned() || index.get<std::uint64_t>() >= autotune::kChainOpsMax) return false;
    out.push_back(index.get<Number>());
  }
  return true;
}

bool read_stage(const Json& in, OpProfile& stage) {
  if (!in.is_object()) return false;
  const auto name = in.find("name");
  if (name == in.end() || !name->is_string() || name->get_ref<const std::string&>().size() > kNameBytesMax)
    return false;
  stage.name = name->get<std::string>();
  return read_indices(in, "ops", stage.ops) && std::ranges::all_of(kSums, [&](const auto& sum) {
           return read_number(in, sum.first, stage.*sum.second);
         });
}

bool read_order(const Json& in, OrderProfile& order, std::int64_t now_s) {
  std::uint64_t at = 0;
  if (!in.is_object() || !read_indices(in, "order", order.order) || !read_number(in, "at", at)) return false;
  order.measured_at_s = time_from(at, now_s);
  const auto stages = in.find("stages");
  if (stages == in.end() || !stages->is_array()) return false;
  return std::ranges::all_of(
      *stages, [&](const Json& stage) { return read_stage(stage, order.stages.emplace_back()); });
}

bool read_figure(const Json& object, const char* name, double& figure) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_number()) return false;
  figure = found->get<double>();
  return true;
}

bool read_rates(const Json& in, StreamRates& rates, std::int64_t now_s) {
  std::uint64_t reads_at = 0, demand_at = 0;
  if (!in.is_object() || !read_figure(in, "read_latency_s", rates.read_latency_s) ||
      !read_figure(in, "read_bytes_per_s", rates.read_bytes_per_s) ||
      !read_figure(in, "demand_per_s", rates.demand_per_s) || !read_number(in, "reads_at", reads_at) ||
      !read_number(in, "demand_at", demand_at))
    return false;
  rates.reads_at_s = time_from(reads_at, now_s);
  rates.demand_at_s = time_from(demand_at, now_s);
  return true;
}

using autotune::EarlierRun;

constexpr std::pair<const char*, double EarlierRun::*> kOverflowFigures[] = {
    {"demand_per_s", &EarlierRun::demand},
    {"local_cpu_s", &EarlierRun::local_cpu_s},
    {"link_in_bytes_per_s", &EarlierRun::link_in_bytes_per_s},
    {"link_out_bytes_per_s", &EarlierRun::link_out_bytes_per_s},
    {"source_bytes_per_s", &EarlierRun::source_bytes_per_s},
    {"host_cpu_s", &EarlierRun::host_cpu_s},
    {"worker_cpu_s", &EarlierRun::worker_cpu_s},
    {"worker_cores", &EarlierRun::worker_cores}};

bool read_overflow(const Json& in, OverflowProfile& overflow) {
  std::uint64_t workers = 0, ops_remote = 0;
  if (!in.is_object() || !read_indices(in, "order", overflow.order) || !read_number(in, "workers", workers) ||
      !read_number(in, "ops_remote", ops_remote) || !read_figure(in, "samples_away", overflow.samples_away))
    return false;
  const auto serves = in.find("serves");
  if (serves == in.end() || !serves->is_boolean()) return false;
  overflow.run.workers = static_cast<std::uint32_t>(std::min<std::uint64_t>(workers, UINT32_MAX));
  overflow.run.ops_remote = ops_remote;
  overflow.run.serves = serves->get<bool>();
  return std::ranges::all_of(kOverflowFigures, [&](const auto& figure) {
    return read_figure(in, figure.first, overflow.run.*figure.second);
  });
}

bool read_costs(const Json& in, const char* name, std::array<SizeCost, kStorageWorks>& costs) {
  const auto found = in.find(name);
  if (found == in.end() || !found->is_array() || found->size() != costs.size()) return false;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const Json& cost = (*found)[i];
    if (!cost.is_object() || !read_figure(cost, "fixed_s", costs.at(i).fixed_s) ||
        !read_figure(cost, "per_byte_s", costs.at(i).per_byte_s))
      return false;
  }
  return true;
}

bool read_storage(const Json& in, StorageProfile& storage, std::int64_t now_s) {
  std::uint64_t at = 0;
  if (!in.is_object() || !read_number(in, "at", at) || !read_costs(in, "time", storage.rates.time) ||
      !read_costs(in, "cpu", storage.rates.cpu))
    return false;
  const auto folder = in.find("folder");
  if (folder == in.end() || !folder->is_string()) return false;
  storage.folder = folder->get<std::string>();
  storage.rates.measured_at_s = time_from(at, now_s);
  return true;
}

Json to_json(const std::array<SizeCost, kStorageWorks>& costs) {
  Json all = Json::array();
  for (const SizeCost& cost : costs)
    all.push_back({{"fixed_s", cost.fixed_s}, {"per_byte_s", cost.per_byte_s}});
  return all;
}

Json to_json(const StorageProfile& storage) {
  return {{"folder", storage.folder},
          {"at", time_to(storage.rates.measured_at_s)},
          {"time", to_json(storage.rates.time)},
          {"cpu", to_json(storage.rates.cpu)}};
}

Json to_json(const OverflowProfile& overflow) {
  Json out{{"order", overflow.order},
           {"workers", overflow.run.workers},
           {"ops_remote", overflow.run.ops_remote},
           {"serves", overflow.run.serves},
           {"samples_away", overflow.samples_away}};
  for (const auto& [name, figure] : kOverflowFigures) out[name] = overflow.run.*figure;
  return out;
}

Json to_json(const StreamRates& rates) {
  return {{"read_latency_s", rates.read_latency_s},
          {"read_bytes_per_s", rates.read_bytes_per_s},
          {"reads_at", time_to(rates.reads_at_s)},
          {"demand_per_s", rates.demand_per_s},
          {"demand_at", time_to(rates.demand_at_s)}};
}

Json to_json(const OrderProfile& order) {
  Json stages = Json::array();
  for (const OpProfile& stage : order.stages) {
    Json out{{"name", stage.name}, {"ops", stage.ops}};
    for (const auto& [name, sum] : kSums) out[name] = stage.*sum;
    stages.push_back(std::move(out));
  }
  return {{"order", order.order}, {"at", time_to(order.measured_at_s)}, {"stages", std::move(stages)}};
}

}  // namespace

ProfileMachine ProfileMachine::here() {
  return {.cpu = cpu_name(), .simd = simd_target(), .cores = cores_allowed()};
}

std::string profile_path(const std::string& cache_dir, const transforms::Pipeline& pipeline,
                         const ProfileMachine& machine) {
  Hasher128 hasher;
  hasher.update(std::string_view("carya profile"));
  hasher.update(std::string_view(pipeline.fingerprint(transforms::OnError::kRaise).hex()));
  for (const transforms::SourceField& field : pipeline.fields()) {
    hasher.update(static_cast<std::uint64_t>(field.kind));
    hasher.update(std::string_view(field.spec.to_string()));
  }
  hasher.update(std::string_view(machine.cpu));
  hasher.update(std::string_view(machine.simd));
  hasher.update(std::uint64_t{machine.cores});
  return cache_dir + "/profile-" + hasher.digest().hex() + ".json";
}

Result<PlanProfile> load_profile(const std::string& path, const transforms::Pipeline& pipeline,
                                 std::int64_t now_s) {
  ASSIGN(const std::string text, read_small_file(path));
  const Json in = Json::parse(text, nullptr, false);
  if (!in.is_object()) return damaged(path, "no JSON object");
  std::uint64_t version = 0;
  if (!read_number(in, "carya_profile", version) || version != kVersion)
    return damaged(path, fmt::format("not of version {}", kVersion));
  const auto orders = in.find("orders");
  if (orders == in.end() || !orders->is_array() || orders->size() > kOrdersKept)
    return damaged(path, "\"orders\" is not as expected");
  PlanProfile profile;
  for (const Json& order : *orders)
    if (!read_order(order, profile.orders.emplace_back(), now_s))
      return damaged(path, fmt::format("order {} is not as expected", profile.orders.size() - 1));
  const auto stream = in.find("stream");  // files of before have none
  if (stream != in.end() && !read_rates(*stream, profile.rates, now_s))
    return damaged(path, "\"stream\" is not as expected");
  const auto overflow = in.find("overflow");  // nor that, without workers
  if (overflow != in.end() && !read_overflow(*overflow, profile.overflow.emplace()))
    return damaged(path, "\"overflow\" is not as expected");
  const auto storages = in.find("storages");  // nor these, without files of samples
  if (storages != in.end()) {
    if (!storages->is_array() || storages->size() > kStoragesKept)
      return damaged(path, "\"storages\" is not as expected");
    for (const Json& storage : *storages)
      if (!read_storage(storage, profile.storages.emplace_back(), now_s))
        return damaged(path, "\"storages\" is not as expected");
  }
  profile = checked(pipeline, profile);
  profile.keep_samples(kKeptSamples);
  return profile;
}

Status store_profile(const std::string& path, const PlanProfile& profile, const ProfileMachine& machine) {
  Json orders = Json::array();
  for (const OrderProfile& order : profile.orders) orders.push_back(to_json(order));
  Json all{{"carya_profile", kVersion},
           {"machine", {{"cpu", machine.cpu}, {"simd", machine.simd}, {"cores", machine.cores}}},
           {"orders", std::move(orders)},
           {"stream", to_json(profile.rates)}};
  if (profile.overflow) all["overflow"] = to_json(*profile.overflow);
  for (const StorageProfile& storage : profile.storages) all["storages"].push_back(to_json(storage));
  const std::string text = all.dump(1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kFileBytesMax) return damaged(path, "too large to be kept");
  return io::replace_file(path, std::as_bytes(std::span(text)), io::Readers::everybody());
}

void remove_old_profiles(const std::string& path, std::size_t files_max) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> others;
  for (fs::directory_iterator entry(fs::path(path).parent_path(), error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code unknown;
    if (name.starts_with("profile-") && name.ends_with(".json") && entry->path() != path)
      others.emplace_back(entry->last_write_time(unknown), entry->path());
  }
  if (others.size() <= files_max) return;
  std::ranges::sort(others, std::greater<>());
  for (std::size_t i = files_max; i < others.size(); ++i) fs::remove(others[i].second, error);
}

}  // namespace carya::loader
