#pragma once

#include "transforms/audio/codec/audio_reader.h"

namespace carya::transforms {

/// Open a RIFF WAVE file. A data chunk that is longer than the file is one cut off (kCorrupt), unless its size is 0 or at
/// least 0xffffff00, which programs write that do not know the length beforehand: then it reaches to the end.
/// Source: Microsoft, "Multiple Channel Audio Data and WAVE Files"; ITU-T G.711. Errors: those of open_audio().
Result<std::unique_ptr<AudioReader>> open_wav(AudioBytes bytes);

}  // namespace carya::transforms
