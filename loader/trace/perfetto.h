#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/trace/trace.h"

namespace carya::loader {

struct PerfettoOptions {
  std::string process = "carya";  ///< the name of this process in the trace
  /// Streams (trace_stream()) whose events are wanted; empty: all.
  std::vector<std::uint64_t> only{};
  /// The newest events that are written; those left out are counted with those that rings dropped.
  std::size_t events_max = SIZE_MAX;
  std::size_t bytes_max = SIZE_MAX;  ///< fewer events are written where they would take more
};

/// The record as a trace in Perfetto's format: a stream of TracePackets (protobuf), which ui.perfetto.dev opens. Traces of
/// several processes of one host may be written one behind the other: the tracks differ, the clock is the same.
///
/// Tracks: one for each thread, for each lane of the reads of a stream, for each slot, each worker, each process of Python
/// functions, and for counters. Flows: a record's read, its chunk, the chunk's slot, next(). Events carry numbers, and paths
/// of records, escaped; no bytes of records. May throw std::bad_alloc.
std::string to_perfetto(const TraceRecord& record, const PerfettoOptions& options);

}  // namespace carya::loader
