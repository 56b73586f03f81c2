#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "loader/control/daemon_stream.h"
#include "tests/loader/job_reading.h"

namespace carya::loader {

/// The program of this build, or the one that tools/mutants.py wants tried.
inline const char* caryad_program() {
  const char* other = std::getenv("CARYA_TEST_CARYAD");
  return other == nullptr ? CARYAD : other;
}

/// A real caryad of its own folder, killed at the end.
class DaemonProcess {
 public:
  explicit DaemonProcess(std::vector<std::string> arguments = {}) : arguments_(std::move(arguments)) {
    std::string pattern = (std::filesystem::temp_directory_path() / "carya-daemon-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    start();
  }
  ~DaemonProcess() {
    kill(SIGKILL);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  std::string socket() const { return folder_ + "/caryad.sock"; }
  pid_t pid() const { return pid_; }

  /// Starts it and waits until it answers.
  void start() {
    pid_ = fork();
    if (pid_ == 0) {
      std::vector<std::string> words{caryad_program(), "--socket", socket()};
      words.insert(words.end(), arguments_.begin(), arguments_.end());
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      execv(argv[0], argv.data());
      _exit(127);
    }
    for (int i = 0; i < 3000; ++i) {
      if (status()) return;
      usleep(10'000);
    }
    ADD_FAILURE() << "caryad does not answer";
  }
  /// Sends the signal and waits for the end. Gives the exit status as waitpid() does.
  int kill(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }
  Result<DaemonStatus> status() const {
    ASSIGN(const std::string body,
           ask_daemon(socket(), MessageType::kStatus, Message().body, MessageType::kStatusIs, 120'000));
    return decode<DaemonStatus>(body);
  }
  /// Open a job in it.
  Result<std::shared_ptr<Job>> open(const Opened& opened, const JobOptions& job,
                                    DaemonOptions options = {}) const {
    options.socket = socket();
    if (options.job.empty()) options.job = "test";
    return Job::create(attach_to_daemon(opened.pipeline, job, options), job);
  }

 private:
  std::vector<std::string> arguments_;
  std::string folder_;
  pid_t pid_ = -1;
};

inline std::shared_ptr<Job> must(Result<std::shared_ptr<Job>> job) {
  EXPECT_TRUE(job) << (job ? "" : job.error().message);
  return job ? *job : nullptr;
}

/// Waits until the daemon's figures satisfy it.
inline bool eventually(const DaemonProcess& daemon, const std::function<bool(const DaemonStatus&)>& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (const auto status = daemon.status(); status && holds(*status)) return true;
    usleep(5'000);
  }
  return false;
}

}  // namespace carya::loader
