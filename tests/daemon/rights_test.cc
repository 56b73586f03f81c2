#include "loader/users/rights.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/unique_fd.h"
#include "loader/host/accounts.h"

namespace carya::loader {
namespace {

Admitted must(const std::vector<std::string>& names) {
  std::vector<std::string> unknown;
  Admitted made = Admitted::create(names, unknown);
  EXPECT_TRUE(unknown.empty());
  return made;
}

TEST(Admitted, UsersAndGroupsByNameOrNumberAndRootByNameOnly) {
  const Rights alice{1000, 1000, {27, 1000, 2000}}, bob{1001, 1001, {1001}}, root{0, 0, {2000}};
  EXPECT_TRUE(must({"*"}).admits(alice));
  EXPECT_FALSE(must({}).admits(alice));
  EXPECT_TRUE(must({"1000"}).admits(alice));
  EXPECT_FALSE(must({"1000"}).admits(bob));
  EXPECT_TRUE(must({"@2000"}).admits(alice)) << "a supplementary group";
  EXPECT_FALSE(must({"@2000"}).admits(bob));
  EXPECT_TRUE(must({"@1001"}).admits(bob)) << "the first group";
  EXPECT_FALSE(must({"root"}).admits(bob));
  EXPECT_FALSE(must({"@root"}).admits(bob));
  EXPECT_TRUE(must({"@root", "1001"}).admits(bob));
  for (const auto& names : std::vector<std::vector<std::string>>{{"*"}, {"@root"}, {"@2000"}, {"1000"}})
    EXPECT_FALSE(must(names).admits(root));
  EXPECT_TRUE(must({"root"}).admits(root));
}

TEST(Admitted, NamesThatThereAreNotAdmitNobodyAndAreTold) {
  const std::vector<std::string> names{"no such user", "@no such group", "", "@", "1000x",
                                       "-1",           "99999999999"};
  std::vector<std::string> unknown;
  const Admitted admitted = Admitted::create(names, unknown);
  EXPECT_EQ(unknown, names);
  EXPECT_FALSE(admitted.admits({1000, 1000, {}}));
}

TEST(Admitted, NumbersForContainersAreRangesOfTheFile) {
  using Ranges = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
  EXPECT_EQ(parse_subordinate("alice:100000:65536\nbob:165536:65536\n"),
            (Ranges{{100'000, 165'536}, {165'536, 231'072}}));
  EXPECT_EQ(parse_subordinate("# none\nalice:x:1\nalice:1\n\n:5:4294967295"), (Ranges{{5, 4'294'967'300}}));
}

TEST(Rights, AreThoseOfTheProcessThatConnected) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]), other(ends[1]);
  const auto rights = peer_rights(one.get());
  ASSERT_TRUE(rights) << rights.error().message;
  EXPECT_EQ(*rights, own_rights());
}

/// What a child that takes the rights sees of a socket that it makes then.
std::optional<Rights> seen_by_child(const Rights& rights, bool& came_back) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return std::nullopt;
  const UniqueFd in(pipe_ends[0]), out(pipe_ends[1]);
  const pid_t child = fork();
  if (child == 0) {
    int ends[2];
    if (take_rights(rights) != 0 || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) _exit(1);
    const auto found = peer_rights(ends[0]);
    if (!found) _exit(1);
    // By the kernel itself: the C library would ask all threads, and a sanitizer has one of its own.
    const bool is_root = syscall(SYS_setresuid, 0, 0, 0) == 0 || syscall(SYS_setresgid, 0, 0, 0) == 0;
    const std::uint32_t back = is_root ? 1 : 0;
    std::vector<std::uint32_t> words{back, found->uid, found->gid};
    words.insert(words.end(), found->groups.begin(), found->groups.end());
    const auto bytes = static_cast<ssize_t>(words.size() * sizeof(words[0]));
    _exit(write(out.get(), words.data(), words.size() * sizeof(words[0])) == bytes ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  std::vector<std::uint32_t> words(200);
  const ssize_t got = read(in.get(), words.data(), words.size() * sizeof(words[0]));
  words.resize(static_cast<std::size_t>(got) / sizeof(words[0]));
  came_back = words.at(0) != 0;
  return Rights{words.at(1), words.at(2), {words.begin() + 3, words.end()}};
}

TEST(Rights, TakenTheyAreAllThereIsAndThereIsNoWayBack) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  Rights many{61'001, 61'002, {}};
  for (gid_t group = 0; group < 150; ++group)
    many.groups.push_back(70'000 + group);  // more than a first look has room for
  for (const Rights& rights : {Rights{61'001, 61'002, {61'003, 61'009}}, Rights{61'001, 61'002, {}}, many}) {
    bool came_back = true;
    const auto seen = seen_by_child(rights, came_back);
    ASSERT_TRUE(seen);
    EXPECT_EQ(*seen, rights);
    EXPECT_FALSE(came_back);
  }
}

TEST(Rights, WhoHasNoNumberHereIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  bool came_back = true;
  EXPECT_FALSE(seen_by_child({65'534, 65'534, {}}, came_back));
}

TEST(Users, HaveNamesAndHomes) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_home(0), "/root");
  EXPECT_EQ(user_number("root").value(), 0u);
  EXPECT_EQ(user_name(61'001), "61001");
  EXPECT_EQ(user_home(61'001), "");
  EXPECT_EQ(user_number("61001").value(), 61'001u);
}

}  // namespace
}  // namespace carya::loader
