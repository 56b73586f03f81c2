#include "loader/program/event_log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <cstdlib>

#include "base/escape.h"

namespace carya::loader {
namespace {

constexpr std::size_t kLinesKept = 1000;

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// journald's priority of a line. Source: sd-daemon(3).
class Priority : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& line, const std::tm&, spdlog::memory_buf_t& out) override {
    const char* const text = line.level >= spdlog::level::err    ? "<3>"
                             : line.level >= spdlog::level::warn ? "<4>"
                             : line.level >= spdlog::level::info ? "<6>"
                                                                 : "<7>";
    out.append(text, text + 3);
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<Priority>(); }
};

}  // namespace

bool is_journal(const std::string& journal_stream, int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 && journal_stream == fmt::format("{}:{}", info.st_dev, info.st_ino);
}

struct EventLog::State {
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> kept =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(kLinesKept);
  std::shared_ptr<spdlog::sinks::stderr_sink_mt> err = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  spdlog::logger logger{"caryad", {kept, err}};
};

EventLog::EventLog() : state_(std::make_unique<State>()) {
  state_->kept->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  const char* const journal = std::getenv("JOURNAL_STREAM");
  if (journal != nullptr && is_journal(journal, STDERR_FILENO)) {
    auto formatter = std::make_unique<spdlog::pattern_formatter>();
    formatter->add_flag<Priority>('*').set_pattern("%*%v");
    state_->err->set_formatter(std::move(formatter));
  } else {
    state_->err->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  }
  state_->logger.set_level(spdlog::level::info);
  state_->logger.flush_on(spdlog::level::debug);
}

EventLog::~EventLog() = default;

void EventLog::set_level(const std::string& level) {
  state_->logger.set_level(spdlog::level::from_str(level));
}

void EventLog::write(LogLevel level, const std::string& line) {
  state_->logger.log(level_of(level), escaped(line));
}

std::vector<std::string> EventLog::last_lines(std::uint64_t count) const {
  std::vector<std::string> lines = state_->kept->last_formatted(count);
  for (std::string& line : lines)
    while (!line.empty() && line.back() == '\n') line.pop_back();
  return lines;
}

}  // namespace carya::loader
