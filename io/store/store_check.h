#pragma once

#include "base/error.h"
#include "io/store/record_store.h"
#include "io/store/store_file.h"

namespace carya::io {

/// Walk a whole store file whose header is valid. Errors: kIo, kExhausted.
Result<StoreCheck> check_store_file(const StoreFile& file);

}  // namespace carya::io
