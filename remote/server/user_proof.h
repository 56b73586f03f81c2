#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "remote/protocol/messages.h"

namespace carya::remote {

/// How a URI of a client's certificate begins that names a user whose work the client may bring. The rest of the URI is
/// the name, byte for byte, or kAnyUser.
inline constexpr const char* kUserUri = "carya:user:";
inline constexpr const char* kAnyUser = "*";

/// A secret, and whose it is.
struct UserToken {
  std::string user;  ///< "": it is anybody's, and proves no name
  std::string token;
  bool operator==(const UserToken&) const = default;
};

/// Whose work a client brings.
struct ClientUser {
  std::string name;     ///< of 200 bytes at most; "": it was not said
  bool proven = false;  ///< by the client's certificate or token; else the client says so, and nothing else
};

/// The tokens in a text: one in each line, as "user:token" (kAnyUser: its holder may bring the work of any user), or
/// alone where it proves no name; one with a colon that proves no name is ":token". Space around names and tokens does
/// not count, nor do empty lines. A user may have several. Errors: kInvalidArgument, with the number of the line but
/// nothing that is in it (no token, a name or token that is too long, a token that an earlier line has).
Result<std::vector<UserToken>> parse_tokens(const std::string& text);

/// Whose work a client brings: the user that its token or its certificate (`uris`) names, if one of them does, else the
/// one that its Hello says. Where a certificate names several, the Hello says which; a client of before, which says
/// none, counts as the first. All tokens are compared, in a time that does not tell which or where.
/// Errors: kPermission (none of the tokens, another user than was proven, or no proof where it is `required`), with what
/// to give instead.
Result<ClientUser> prove_user(const Hello& hello, const std::vector<std::string>& uris,
                              const std::vector<UserToken>& tokens, bool required);

/// Whom a client shares with: those who prove the same name, or those who only say it. Nobody becomes one of the former
/// by saying so.
std::string party_of(const ClientUser& user);

}  // namespace carya::remote
