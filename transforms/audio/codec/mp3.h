#pragma once

#include "transforms/audio/codec/audio_reader.h"

namespace carya::transforms {

/// Open an MPEG audio file (layers I to III) by libmpg123, without the encoder's delay where the file says it. Its frames
/// are counted without decoding them. Every machine of one architecture uses the same decoder of the library, whatever
/// it has beyond the baseline. Errors: those of open_audio().
Result<std::unique_ptr<AudioReader>> open_mp3(AudioBytes bytes);

}  // namespace carya::transforms
