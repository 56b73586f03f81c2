#include "io/credentials/token_answer.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/clock.h"

namespace carya::io {
namespace {

constexpr std::size_t kFileMax = 1 << 20;
constexpr std::int64_t kSecondsMax = 30 * 86'400;

/// A number, or one in a string, as Azure's are; 0 where it is none.
std::int64_t number(const nlohmann::json& document, const char* name) {
  const auto found = document.find(name);
  if (found == document.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  return found->is_string() ? std::strtoll(found->get_ref<const std::string&>().c_str(), nullptr, 10) : 0;
}

}  // namespace

std::string text_of(const nlohmann::json& document, const char* name) {
  const auto found = document.find(name);
  return found != document.end() && found->is_string() ? found->get<std::string>() : "";
}

Error fetch_error(const Result<FetchAnswer>& answer, std::string_view subject) {
  if (!answer) return {Code::kIo, fmt::format("{}: {}", subject, answer.error().message)};
  const bool busy = answer->status == 429 || answer->status >= 500;
  return {busy ? Code::kIo : Code::kPermission, fmt::format("{} answered {}", subject, answer->status)};
}

Result<Grant> token_of(const Result<FetchAnswer>& answer, std::string_view subject) {
  if (!answer || answer->status != 200) return std::unexpected(fetch_error(answer, subject));
  const auto document = nlohmann::json::parse(answer->body, nullptr, false);
  const auto none = [&] { return fail(Code::kIo, fmt::format("{}: its answer holds no token", subject)); };
  if (!document.is_object()) return none();
  const auto token = document.find("access_token");
  if (token == document.end() || !token->is_string() || token->get_ref<const std::string&>().empty())
    return none();
  const std::int64_t now = unix_s();
  Grant grant{.token = token->get<std::string>()};
  grant.expires_s = now + std::min(number(document, "expires_in"), kSecondsMax);
  if (const std::int64_t on = number(document, "expires_on"); on > now)
    grant.expires_s = std::min(on, now + kSecondsMax);
  if (grant.expires_s <= now) return none();
  return grant;
}

Result<std::string> small_file(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail_errno(path, errno != 0 ? errno : ENOENT);
  std::string text(kFileMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kFileMax)
    return fail(Code::kInvalidArgument, path + ": more than 1 MiB; give another file");
  return text;
}

bool is_private_url(std::string_view url) {
  if (url.starts_with("https://")) return true;
  if (!url.starts_with("http://")) return false;
  const std::string_view rest = url.substr(7);
  const std::string_view host = rest.substr(0, rest.find_first_of(":/?#"));
  return host == "127.0.0.1" || host == "localhost" || rest.starts_with("[::1]");
}

}  // namespace carya::io
