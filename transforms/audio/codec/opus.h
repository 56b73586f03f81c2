#pragma once

#include "transforms/audio/codec/audio_reader.h"

namespace carya::transforms {

/// Open an Ogg Opus file by libopusfile, at 48 kHz, with the gain of its header. A chain of streams with different
/// channels is kCorrupt. Errors: those of open_audio().
Result<std::unique_ptr<AudioReader>> open_opus(AudioBytes bytes);

}  // namespace carya::transforms
