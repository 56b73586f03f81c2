#include "transforms/user/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "base/hash.h"
#include "base/mutex.h"

namespace carya::transforms {
namespace {

constexpr std::size_t kNameMax = 64;

bool is_name(const char* name) {
  if (name == nullptr) return false;
  const std::string_view text(name);
  const auto fits = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; };
  return !text.empty() && text.size() <= kNameMax && text.front() >= 'a' && std::ranges::all_of(text, fits);
}

Result<std::string> hash_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.empty()) return fail(Code::kNotFound, "op: " + path + ": cannot be read");
  Hasher128 hash;
  hash.update(bytes);
  return hash.digest().hex();
}

struct Known {
  Mutex mutex;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<const UserLibrary>, std::less<>> libraries
      GUARDED_BY(mutex);
  bool environment GUARDED_BY(mutex) = false;
};

Known& known() {
  static Known libraries;
  return libraries;
}

/// Whether the shape of a result can be that of one made from `in`.
bool is_possible(const carya_tensor& out, const TensorSpec& in) {
  if (out.dimensions < 0 || out.dimensions > CARYA_OP_DIMENSIONS_MAX ||
      dtype_bytes(static_cast<DType>(out.dtype)) == 0)
    return false;
  std::int64_t bytes = static_cast<std::int64_t>(dtype_bytes(static_cast<DType>(out.dtype)));
  for (std::int32_t i = 0; i < out.dimensions; ++i) {
    const std::int64_t size = out.shape[i];
    const bool stays = size == -1 && std::cmp_less(i, in.shape.size()) &&
                       in.shape[static_cast<std::size_t>(i)] == -1 && in.dtype == DType::kUint8 &&
                       out.dtype == CARYA_UINT8 && std::cmp_equal(out.dimensions, in.shape.size());
    if (size < 1 && !stays) return false;
    if (size > 0 && __builtin_mul_overflow(bytes, size, &bytes)) return false;
  }
  return bytes <= std::int64_t{1} << 40;
}

}  // namespace

std::string reason_of(const char (&reason)[CARYA_OP_REASON + 1]) {
  return reason[0] == 0 ? "it gives no reason" : reason;
}

carya_tensor to_interface(const TensorSpec& spec) {
  carya_tensor tensor{.dtype = static_cast<std::int32_t>(spec.dtype),
                      .dimensions = static_cast<std::int32_t>(spec.shape.size()),
                      .shape = {}};
  std::ranges::copy(spec.shape, tensor.shape);
  return tensor;
}

Result<std::shared_ptr<const UserLibrary>> UserLibrary::load(const std::string& path) {
  if (path.empty() || path.front() != '/')
    return fail(Code::kInvalidArgument, "op: library: got '" + path + "'; give an absolute path");
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    return fail(Code::kUnsupported,
                "op: " + path + ": cannot be loaded: " + (why ? why : "no reason is known"));
  }
  const auto entry = reinterpret_cast<decltype(&carya_op_entry)>(::dlsym(library, "carya_op_entry"));
  const carya_op* const op = entry ? entry() : nullptr;
  if (op == nullptr)
    return fail(Code::kUnsupported,
                "op: " + path + ": has no carya_op_entry(); see carya_op.h, which it includes");
  if (op->version != CARYA_OP_INTERFACE)
    return fail(Code::kUnsupported, "op: " + path + ": is of version " + std::to_string(op->version) +
                                        " of the interface, and this is version " +
                                        std::to_string(CARYA_OP_INTERFACE) + "; compile it anew");
  if (!is_name(op->name) || op->plan == nullptr || op->run == nullptr)
    return fail(
        Code::kInvalidArgument,
        "op: " + path + ": its description needs a name of lower-case letters, digits and '_', plan and run");
  std::shared_ptr<UserLibrary> made(new UserLibrary(op));
  made->digest_ = op->digest ? op->digest : "";
  if (made->digest_.empty()) {
    ASSIGN(made->digest_, hash_of(path));
  }
  return std::shared_ptr<const UserLibrary>(std::move(made));
}

Result<TensorSpec> UserLibrary::plan(const std::string& parameters, const TensorSpec& in,
                                     std::shared_ptr<void>* state) const {
  const carya_tensor given = to_interface(in);
  carya_tensor out{};
  void* kept = nullptr;
  char reason[CARYA_OP_REASON + 1] = {};
  const bool planned = op_->plan(parameters.c_str(), &given, &out, state ? &kept : nullptr, reason) == 0;
  if (state && kept) *state = std::shared_ptr<void>(kept, op_->end ? op_->end : [](void*) {});
  if (!planned) return fail(Code::kInvalidArgument, name_ + ": " + reason_of(reason));
  if (!is_possible(out, in))
    return fail(Code::kInvalidArgument,
                name_ + ": its plan() makes an array that cannot be, of " + in.to_string() +
                    "; sizes are 1 or more, and -1 only where a uint8 picture has it");
  return TensorSpec{.name = in.name,
                    .dtype = static_cast<DType>(out.dtype),
                    .shape = {out.shape, out.shape + out.dimensions}};
}

Result<std::shared_ptr<const UserLibrary>> add_user_library(const std::string& path) {
  ASSIGN(auto library, UserLibrary::load(path));
  const MutexLock lock(known().mutex);
  const auto [place, added] = known().libraries.try_emplace({library->name(), library->digest()}, library);
  if (place->second->revision() != library->revision())
    return fail(Code::kInvalidArgument,
                "op: " + path + ": another " + library->name() + " of this digest is loaded");
  return place->second;
}

Result<std::shared_ptr<const UserLibrary>> find_user_library(std::string_view name, std::string_view digest) {
  const std::pair key{std::string(name), std::string(digest)};
  const auto find = [&]() -> std::shared_ptr<const UserLibrary> {
    const MutexLock lock(known().mutex);
    const auto found = known().libraries.find(key);
    return found == known().libraries.end() ? nullptr : found->second;
  };
  if (auto found = find()) return found;
  const bool looks = [] {
    const MutexLock lock(known().mutex);
    return known().environment;
  }();
  if (const char* const listed = looks ? std::getenv("CARYA_OPS") : nullptr) {
    std::string_view rest(listed);
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(':'), rest.size());
      // One that cannot be loaded is perhaps not the one that is wanted.
      if (end > 0) static_cast<void>(add_user_library(std::string(rest.substr(0, end))));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (auto found = find()) return found;
  }
  return fail(Code::kNotFound,
              "op " + key.first + ": its library (" + key.second +
                  ") is not loaded here; call carya.op(...) first, or start carya-worker with --op "
                  "FILE. A daemon loads none: give daemon=\"embedded\"");
}

void look_in_environment() {
  const MutexLock lock(known().mutex);
  known().environment = true;
}

}  // namespace carya::transforms
