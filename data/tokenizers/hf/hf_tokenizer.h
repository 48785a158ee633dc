// What tokenizer.json and tokenizer_config.json of a Hugging Face directory have for every kind of BPE: pieces, added
// tokens, special ids, and the template that adds BOS. The format is that of the package
// tokenizers.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data::hf {

using Json = nlohmann::ordered_json;

/// Both files, and their names for messages.
struct Source {
  const nlohmann::json& tokenizer;
  std::string where;
  const nlohmann::json& config;
  std::string config_where;
  size_t vocab_size;  ///< of the model in the same directory, whose matrix may have more rows than there are tokens
};

/// The value at `key`; null if it is missing or `object` is not an object.
[[nodiscard]] const nlohmann::json& value(const nlohmann::json& object, const char* key);

/// `json` as one short line; shown() is for the arguments of require() and fail().
[[nodiscard]] std::string short_text(const nlohmann::json& json);
[[nodiscard]] inline auto shown(const nlohmann::json& json) {
  return [&json] { return short_text(json); };
}

/// Throws core::Error "WHERE: SUCH is not supported here" unless `condition` holds.
template <typename... Args>
void supported(bool condition, const std::string& where, fmt::format_string<core::detail::Evaluated<Args>...> format,
               Args&&... args) {
  if (!condition) core::fail("{}: {} is not supported here", where, core::message(format, std::forward<Args>(args)...));
}

/// The "model". Throws core::Error unless it is BPE without dropout, prefixes or suffixes.
[[nodiscard]] const nlohmann::json& read_model(const Source& source);

/// The pieces of a "vocab" by id, `n` with empty ones. Throws core::Error for an id that is not below n or repeated.
[[nodiscard]] std::vector<std::string> pieces_by_id(const nlohmann::json& vocabulary, size_t n,
                                                    const std::string& where);

/// The pieces as spelled in the file. All are normal except the added tokens, which are control pieces if special, else
/// user-defined; with their flags. Ids below the model's vocab_size that the file lacks become unused pieces.
void read_pieces(const Source& source, Vocabulary& vocabulary);

/// Removes unused pieces that read_pieces() put at the end.
void drop_padding(Vocabulary& vocabulary);

/// bos_token and so on of the configuration; -1 if missing. Throws core::Error if one is not a piece, or without EOS.
void read_special_ids(const Source& source, Vocabulary& vocabulary);

[[nodiscard]] int32_t id_of(const std::string& piece, const Vocabulary& vocabulary, const std::string& where);

/// Whether BOS and EOS are added, by the post-processor: a TemplateProcessing, or null.
void read_template(const Source& source, const nlohmann::json& post_processor, Vocabulary& vocabulary);

/// From "left right" or a list of two.
[[nodiscard]] std::pair<std::string, std::string> merge_of(const nlohmann::json& entry, const std::string& where);

/// What differs between the kinds; the pieces as spelled in the file.
struct Parts {
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

/// Writes both files.
void write_files(const std::filesystem::path& directory, const Vocabulary& vocabulary,
                 const ChatTemplates& chat_templates, Parts parts);

}  // namespace folio::data::hf
