#pragma once

#include "transforms/audio/codec/audio_reader.h"

namespace carya::transforms {

/// Open a FLAC file by libFLAC, whose bits it has. Reads begin at the file's seek table, or by bisection. Errors: those
/// of open_audio().
Result<std::unique_ptr<AudioReader>> open_flac(AudioBytes bytes);

}  // namespace carya::transforms
