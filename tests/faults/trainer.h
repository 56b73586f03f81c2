#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "loader/job/job.h"
#include "tests/faults/board.h"

namespace carya::faults {

/// The pipeline of the harness: photos of the folder, shuffled, cropped at random, 12 records per global
/// step.
std::string pipeline_text(const std::string& folder);
/// The options of one rank's stream; broken records are masked.
loader::JobOptions rank_options(std::uint64_t rank);
/// Hash of all rows of a batch.
std::uint64_t batch_hash(const loader::Job& job, const loader::Batch& batch);

/// The life of one rank: `faults --trainer RANK SOCKET FOLDER BOARD_FD EPOCH POSITION`. Reads batches, holds
/// the last two as a training loop does, writes what it saw to the board. SIGUSR1 shuts its control socket.
int run_trainer(const std::vector<std::string>& words);

/// A reader of a job of its own that writes at random over all it may write: `--scribbler SOCKET FOLDER
/// SEED`. Gives 0 when the daemon told it that it was thrown out.
int run_scribbler(const std::vector<std::string>& words);

}  // namespace carya::faults
