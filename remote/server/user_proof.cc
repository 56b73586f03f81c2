#include "remote/server/user_proof.h"

#include <fmt/core.h>
#include <algorithm>
#include <string_view>

namespace carya::remote {
namespace {

constexpr std::size_t kNameBytesMax = 200, kTokenBytesMax = 4096;

/// Whether both are the same, in a time that does not tell where they differ.
bool same_secret(const std::string& a, const std::string& b) {
  unsigned differs = a.size() != b.size();
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differs == 0;
}

std::string_view stripped(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// Whose token it is. Without any tokens nobody's is right but none.
Result<std::string> user_of_token(const std::vector<UserToken>& tokens, const std::string& said) {
  const UserToken* found = nullptr;
  for (const UserToken& one : tokens)
    if (same_secret(one.token, said)) found = &one;
  if (found != nullptr) return found->user;
  if (tokens.empty() && said.empty()) return std::string();
  return fail(Code::kPermission, "the client does not know the token");
}

bool speaks_for(const std::vector<std::string>& users, const std::string& user) {
  return std::ranges::any_of(users, [&](const auto& one) { return one == user || one == kAnyUser; });
}

std::string shown(std::string name) {
  if (name.size() > kNameBytesMax) name.resize(kNameBytesMax);
  return name;
}

std::string listed(const std::vector<std::string>& users) {
  std::string text;
  for (std::size_t i = 0; i < users.size() && i < 4; ++i) text += (i == 0 ? "" : ", ") + shown(users[i]);
  return text + (users.size() > 4 ? ", ..." : "");
}

}  // namespace

Result<std::vector<UserToken>> parse_tokens(const std::string& text) {
  std::vector<UserToken> tokens;
  std::string_view rest = text;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = stripped(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (line.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return fail(Code::kInvalidArgument, fmt::format("line {}: {}", number, what));
    };
    const std::size_t colon = line.find(':');
    const std::string_view user = colon == line.npos ? "" : stripped(line.substr(0, colon));
    const std::string token(colon == line.npos ? line : stripped(line.substr(colon + 1)));
    if (token.empty() || token.size() > kTokenBytesMax || user.size() > kNameBytesMax)
      return wrong(fmt::format("give a token of 1 to {} bytes, or user:token with a user of at most {}",
                               kTokenBytesMax, kNameBytesMax));
    if (std::ranges::find(tokens, token, &UserToken::token) != tokens.end())
      return wrong("an earlier line has the same token; give each its own");
    tokens.push_back({std::string(user), token});
  }
  if (tokens.empty()) return fail(Code::kInvalidArgument, "give a token, or lines of user:token");
  return tokens;
}

Result<ClientUser> prove_user(const Hello& hello, const std::vector<std::string>& uris,
                              const std::vector<UserToken>& tokens, bool required) {
  ASSIGN(const std::string owner, user_of_token(tokens, hello.token));
  std::vector<std::string> users;
  for (const std::string& uri : uris)
    if (uri.starts_with(kUserUri)) users.push_back(uri.substr(std::string_view(kUserUri).size()));
  const char* proof = "certificate";
  if (!owner.empty() && (owner != kAnyUser || users.empty())) {
    if (!users.empty() && !speaks_for(users, owner))
      return fail(
          Code::kPermission,
          fmt::format(
              "the client's token is that of {}, and its certificate speaks for {}: give both of one user",
              owner, listed(users)));
    users = {owner};
    proof = "token";
  }
  if (users.empty() && required)
    return fail(
        Code::kPermission,
        fmt::format("the client does not prove whose work it brings: give it a certificate with the URI "
                    "{}NAME, or a user's token",
                    kUserUri));
  if (users.empty()) return ClientUser{shown(hello.user), false};
  if (hello.user.empty()) return ClientUser{users.front() == kAnyUser ? "" : shown(users.front()), true};
  if (speaks_for(users, hello.user)) return ClientUser{shown(hello.user), true};
  return fail(
      Code::kPermission,
      fmt::format(
          R"(the client says that it is {}, and its {} speaks for {}: give the {} of {}, or "user": "{}")"
          " in remote_tls, or in [remote] of caryad.toml",
          shown(hello.user), proof, listed(users), proof, shown(hello.user), shown(users.front())));
}

std::string party_of(const ClientUser& user) {
  return (user.proven ? "proven " : "said ") + user.name;
}

}  // namespace carya::remote
