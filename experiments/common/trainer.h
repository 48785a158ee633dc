// Trains models with build/train, for studies of whole runs. Needs no LibTorch itself.
#pragma once

#include <filesystem>
#include <string>

#include "experiments/common/report.h"

namespace folio::experiments {

/// Returns true if build/train exists. Builds without LibTorch lack it.
[[nodiscard]] bool has_trainer();

/// Trains on the file `text` with build/train on one thread, with these flags. The run's directory is `name` in the
/// study's output directory, and its seed is build/train's default, 1337, for the study's default seed 1. Returns what
/// the program printed, which is also in NAME.log. Throws core::Error if build/train doesn't exist or fails.
std::string run_trainer(const Report& report, const std::filesystem::path& text, const std::string& name,
                        const std::string& flags);

}  // namespace folio::experiments
