// Reads and writes the parts of tokenizer.json and tokenizer_config.json (Hugging Face's tokenizers) that all kinds of
// BPE share: pieces, added tokens, special IDs, and the template that adds BOS.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data::hf {

using Json = nlohmann::ordered_json;

/// The two parsed files of a tokenizer, and their names for errors.
struct TokenizerFiles {
  const nlohmann::json& tokenizer;
  std::string where;
  const nlohmann::json& config;
  std::string config_where;
  size_t vocab_size;  ///< the model's vocab_size; may exceed the number of tokens
};

/// Returns the value at `key`; null if it is missing or `object` is not an object.
[[nodiscard]] const nlohmann::json& value(const nlohmann::json& object, const char* key);

/// Returns a function that returns `json` as one short line, for arguments of require() and fail(), which call it only
/// on failure.
[[nodiscard]] inline auto shown(const nlohmann::json& json) {
  return [&json] { return core::printable(json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)); };
}

/// Throws core::Error "WHERE: MESSAGE is not supported" unless `condition` holds.
template <typename... Args>
void supported(bool condition, const std::string& where, fmt::format_string<core::detail::Evaluated<Args>...> format,
               Args&&... args) {
  if (!condition) core::fail("{}: {} is not supported", where, core::message(format, std::forward<Args>(args)...));
}

/// Returns "model" of tokenizer.json. Throws core::Error unless it is BPE without dropout, prefixes or suffixes.
[[nodiscard]] const nlohmann::json& read_model(const TokenizerFiles& source);

/// Returns the `n` pieces of "vocab", by ID; the piece of a missing ID is empty. Throws core::Error if an ID is
/// repeated or >= n.
[[nodiscard]] std::vector<std::string> pieces_by_id(const nlohmann::json& vocabulary, size_t n,
                                                    const std::string& where);

/// Reads the pieces as spelled in the file, their types and flags. Added tokens become control pieces if special, and
/// user-defined pieces otherwise; all others are normal. Missing IDs below the model's vocab_size become unused pieces.
void read_pieces(const TokenizerFiles& source, Vocabulary& vocabulary);

/// Removes the pieces at the end that read_pieces() added for IDs without a token.
void drop_padding(Vocabulary& vocabulary);

/// Reads the IDs of bos_token etc., -1 if absent. Throws core::Error if one is not a piece, or eos_token is missing.
void read_special_ids(const TokenizerFiles& source, Vocabulary& vocabulary);

[[nodiscard]] int32_t id_of(const std::string& piece, const Vocabulary& vocabulary, const std::string& where);

/// Sets add_bos, add_eos and prefix according to the post-processor. Throws core::Error unless it is null, or
/// TemplateProcessing that adds only BOS and EOS, or only tokens before the text.
void read_template(const TokenizerFiles& source, const nlohmann::json& post_processor, Vocabulary& vocabulary);

/// Parses an entry of "merges": "left right" or a list of two pieces. Throws core::Error for any other form.
[[nodiscard]] std::pair<std::string, std::string> merge_of(const nlohmann::json& entry, const std::string& where);

/// The parts of tokenizer.json that depend on the kind of tokenizer. Pieces are spelled as in the file.
struct TokenizerParts {
  const std::vector<std::string>& pieces;
  Json merges = Json::array();
  Json unk_token = nullptr;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  Json normalizer = nullptr;
  Json pre_tokenizer = nullptr;
  Json decoder = nullptr;
};

/// Returns tokenizer.json, from the vocabulary and `parts`, and tokenizer_config.json, with the chat templates.
[[nodiscard]] HfFiles files_of(const Vocabulary& vocabulary, const ChatTemplates& chat_templates, TokenizerParts parts);

}  // namespace folio::data::hf
