#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/error.h"

namespace carya::bench {

/// The command line of a bench: Google Benchmark's flags, `--smoke`, and the program's own, `--name VALUE`.
class Program {
 public:
  Program(int argc, char** argv) : words_(argv, argv + argc) {
    smoke_ = std::erase(words_, "--smoke") > 0;
    if (smoke_)
      words_.insert(words_.begin() + 1, "--benchmark_min_time=0.001");  // what is given later counts
  }

  /// A run of a second that shows that the bench works: little data, and figures that mean nothing.
  bool smoke() const { return smoke_; }

  /// The value after `name`, which Google Benchmark does not see.
  std::string text(const char* name, std::string otherwise = "") {
    const auto found = std::ranges::find(words_, name);
    if (found == words_.end() || found + 1 == words_.end()) return otherwise;
    otherwise = std::move(*(found + 1));
    words_.erase(found, found + 2);
    return otherwise;
  }
  double number(const char* name, double otherwise) {
    const std::string value = text(name);
    return value.empty() ? otherwise : std::strtod(value.c_str(), nullptr);
  }
  /// At least 1.
  std::size_t count(const char* name, std::size_t otherwise) {
    return static_cast<std::size_t>(std::max(1.0, number(name, static_cast<double>(otherwise))));
  }

  /// Run the cases that the flags choose; what main() returns.
  int run() {
    std::vector<char*> argv;
    for (std::string& word : words_) argv.push_back(word.data());
    auto argc = static_cast<int>(argv.size());
    argv.push_back(nullptr);
    benchmark::Initialize(&argc, argv.data());
    if (benchmark::ReportUnrecognizedArguments(argc, argv.data())) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  }

 private:
  std::vector<std::string> words_;
  bool smoke_ = false;
};

/// The value, or the end of the program with the error: a bench goes on with nothing that failed.
template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "bench: %s\n", result.error().message.c_str());
  std::exit(1);
}

}  // namespace carya::bench
