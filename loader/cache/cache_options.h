#pragma once

#include <cstdint>
#include <string>

namespace carya::loader {

/// A folder for samples, and the most bytes of all that lies in it, by whoever.
struct CacheFolder {
  std::string path{};       ///< absolute; "" with bytes: where who serves the stream keeps such a tier
  std::uint64_t bytes = 0;  ///< 0: there is none
  bool operator==(const CacheFolder&) const = default;
};

/// Whether a stream keeps samples for its later epochs, and how many. It changes no bit.
struct CacheOptions {
  enum class Mode : std::uint8_t {
    kOff,   ///< nothing is kept
    kAuto,  ///< what pays by what was measured, from when that is known
    kOn,    ///< from the first batch on, whether it pays or not
  };
  Mode mode = Mode::kOff;
  /// What is kept of a record.
  enum class Form : std::uint8_t {
    kAny,           ///< what pays most
    kRaw,           ///< the results of the first ops
    kCoefficients,  ///< the record as it was read, with the packed coefficients of its JPEGs in their place
    kRecords,       ///< the record as it was read
  };
  Form form = Form::kAny;
  /// The most bytes that are kept; 0: `share` of the memory that is free when the stream begins, divided by the ranks
  /// that this host has in processes of their own.
  std::uint64_t bytes = 0;
  double share = 0.2;
  /// The label of the op behind which samples are kept ("decode_image", "crop#1"); "": where it pays most. Not with
  /// kCoefficients and kRecords, which are kept before all ops.
  std::string after{};
  /// Samples in files: on a disk of this machine, also for later runs; in a folder that many machines see. With kAuto
  /// where that pays.
  CacheFolder disk{}, shared{};
  /// The most bytes that are written to files within a day; 0: no limit but that of who serves the stream.
  std::uint64_t write_bytes_per_day = 0;
  bool has_files() const { return mode != Mode::kOff && (disk.bytes > 0 || shared.bytes > 0); }
};

}  // namespace carya::loader
