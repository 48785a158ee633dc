// What tokenizer.json and tokenizer_config.json of a Hugging Face directory say alike for every kind of BPE: the
// pieces, the added tokens, the ids by name, the template that puts BOS in front. Formats: the package tokenizers
// writes them.
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

/// Both files, and their names for errors.
struct Source {
  const nlohmann::json& tokenizer;
  std::string where;
  const nlohmann::json& config;
  std::string config_where;
};

/// The value at `key`; null where there is none, or `object` is no object.
[[nodiscard]] const nlohmann::json& value(const nlohmann::json& object, const char* key);

/// The text of `json` on one line, which is short; for the arguments of require() and fail().
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

/// The "model", which has to be BPE with nothing else at work.
[[nodiscard]] const nlohmann::json& read_model(const Source& source);

/// The `n` pieces, at least, of a "vocab" by their ids, which are 0 to n - 1, each once; where none is, an empty one.
[[nodiscard]] std::vector<std::string> pieces_by_id(const nlohmann::json& vocabulary, size_t n,
                                                    const std::string& where);

/// The pieces as they are spelt, normal but for the added tokens: special ones are control pieces, the others
/// user-defined.
void read_pieces(const Source& source, Vocabulary& vocabulary);

/// bos_token and so on of the configuration; -1 where there is none. BOS and EOS that are no pieces are errors.
void read_special_ids(const Source& source, Vocabulary& vocabulary);

[[nodiscard]] int32_t id_of(const std::string& piece, const Vocabulary& vocabulary, const std::string& where);

/// Whether BOS and EOS are added: a TemplateProcessing, or null for neither.
void read_template(const Source& source, const nlohmann::json& post_processor, Vocabulary& vocabulary);

/// "left right", or a list of two.
[[nodiscard]] std::pair<std::string, std::string> merge_of(const nlohmann::json& entry, const std::string& where);

/// What a kind writes besides its vocabulary; the pieces as they are spelt.
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
void write_files(const std::filesystem::path& directory, const Vocabulary& vocabulary, const std::string& chat_template,
                 Parts parts);

}  // namespace folio::data::hf
