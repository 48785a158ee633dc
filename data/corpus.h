// Finds or downloads a training text, and splits it into training, validation and test sets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/tokens.h"

namespace folio::data {

struct Corpus {
  std::filesystem::path path;
  std::string text;  ///< UTF-8, as in the file
};

/// Returns the name of a dataset, "tinyshakespeare" or the name of its file or folder without extension. Runs are named
/// after it.
[[nodiscard]] std::string dataset_name(const std::string& dataset);

/// Returns the path of `dataset`. Downloads "tinyshakespeare" if missing. Throws core::Error if there is no such file.
[[nodiscard]] std::filesystem::path path_of_dataset(const std::string& dataset);

/// Loads "tinyshakespeare" (downloaded by scripts/get_tinyshakespeare.py if missing) or a text file. Throws core::Error
/// if the file is missing or empty, or the download fails.
[[nodiscard]] Corpus load_corpus(const std::string& dataset);

template <typename Tokens>
struct SplitsOf {
  Tokens train;
  Tokens validation;
  Tokens test;  ///< empty if test_fraction is 0
};
using Splits = SplitsOf<std::span<const int32_t>>;

/// Splits tokens into consecutive training, validation and test splits. The training split gets the fraction
/// 1 - validation_fraction - test_fraction. Throws core::Error if this is not positive, or if a split has fewer than
/// two tokens, except that the test split is empty if test_fraction is 0.
[[nodiscard]] Splits split_tokens(std::span<const int32_t> tokens, double validation_fraction, double test_fraction);
[[nodiscard]] SplitsOf<TokenView> split_view(TokenView tokens, double validation_fraction, double test_fraction);

}  // namespace folio::data
