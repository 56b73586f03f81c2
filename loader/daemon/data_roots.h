#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "loader/dataset.h"

namespace carya::loader {

/// Whether all files of a dataset lie in the folders that a daemon may read, symbolic links in the way to the
/// dataset's own folder followed. No folders: everything that the user may read. Links inside a dataset are
/// followed too, as torchvision does: this keeps order, not secrets; the daemon serves one user and reads as
/// that user. Errors: kPermission, with the file and the setting. Cost: O(1) for a dataset in one folder,
/// else one look per file.
Status check_data_roots(const Dataset& dataset, const std::vector<std::string>& roots);

}  // namespace carya::loader
