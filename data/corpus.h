// A text to train on: found or fetched, then cut into training, validation and test splits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "data/tokens.h"

namespace folio::data {

struct Corpus {
  std::string name;  ///< "tinyshakespeare", or the file's name without its ending
  std::filesystem::path path;
  std::string text;  ///< UTF-8, as in the file
};

/// The name that a dataset's runs go by.
[[nodiscard]] std::string dataset_name(const std::string& dataset);

/// Where `dataset` lies: "tinyshakespeare" is fetched where it is missing. Throws core::Error if it is not there.
[[nodiscard]] std::filesystem::path path_of_dataset(const std::string& dataset);

/// `dataset` is "tinyshakespeare" (fetched by scripts/get_tinyshakespeare.py where it is missing) or a text file.
/// Throws core::Error if there is no such file or it cannot be had.
[[nodiscard]] Corpus load_corpus(const std::string& dataset);

template <typename Tokens>
struct SplitsOf {
  Tokens train;
  Tokens validation;
  Tokens test;  ///< empty with test_fraction 0
};
using Splits = SplitsOf<std::span<const int32_t>>;

/// Cuts tokens in order: the first (1 - validation - test) of them, then validation, then test.
/// With test 0 the border is floor(n * (1 - validation)). Throws core::Error if a split that is asked for is empty.
[[nodiscard]] Splits split_tokens(std::span<const int32_t> tokens, double validation_fraction, double test_fraction);
[[nodiscard]] SplitsOf<TokenView> split_view(TokenView tokens, double validation_fraction, double test_fraction);

}  // namespace folio::data
