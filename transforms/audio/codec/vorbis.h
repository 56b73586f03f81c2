#pragma once

#include "transforms/audio/codec/audio_reader.h"

namespace carya::transforms {

/// Open an Ogg Vorbis file by libvorbisfile. A chain of streams with different rates or channels is kCorrupt. Errors:
/// those of open_audio().
Result<std::unique_ptr<AudioReader>> open_vorbis(AudioBytes bytes);

}  // namespace carya::transforms
