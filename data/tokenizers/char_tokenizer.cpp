#include "data/tokenizers/char_tokenizer.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/file_io.h"
#include "core/json.h"
#include "core/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/hf/hf_tokenizer.h"

namespace folio::data {
namespace {

using core::fail;
using core::require;

// "line 3, column 14" of the byte at `at`; columns count characters.
std::string place_of(std::string_view text, size_t at) {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at; ++i) {
    if (text[i] == '\n') {
      ++line;
      column = 1;
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++column;
    }
  }
  return fmt::format("line {}, column {}", line, column);
}

core::Utf8Char character_at(std::string_view text, size_t at, const std::string& where) {
  const core::Utf8Char c = core::decode_utf8(text, at);
  if (!c.valid) {  // not `require`, whose arguments are computed always: place_of reads the text up to here
    fail("{}: invalid UTF-8 at {} (byte {}, value 0x{:02X}); convert the text to UTF-8", where, place_of(text, at), at,
         static_cast<unsigned char>(text[at]));
  }
  return c;
}

}  // namespace

CharTokenizer CharTokenizer::from_text(std::string_view text, const std::string& where) {
  require(!text.empty(), "{}: the text is empty", where);
  std::set<uint32_t> code_points;
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = character_at(text, at, where);
    code_points.insert(c.code_point);
    at += c.length;
  }
  std::vector<std::string> characters;
  for (const uint32_t c : code_points) core::append_utf8(characters.emplace_back(), c);
  return CharTokenizer(std::move(characters), where);
}

CharTokenizer::CharTokenizer(std::vector<std::string> characters, const std::string& where)
    : tokens_(std::move(characters)) {
  require(!tokens_.empty(), "{}: the vocabulary is empty", where);
  for (size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    const core::Utf8Char c = token.empty() ? core::Utf8Char{} : core::decode_utf8(token, 0);
    require(c.valid && c.length == token.size(), "{}: token {} (\"{}\") is not one character", where, id,
            core::printable(token));
    require(id_of_.emplace(c.code_point, static_cast<int32_t>(id)).second, "{}: the character \"{}\" occurs twice",
            where, core::printable(token));
  }
  tokens_.emplace_back();  // <|endoftext|> stands for no bytes
  special_ = SpecialTokens({{.text = std::string(kEndOfText), .id = end_of_text()}});
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = character_at(text, at, "the text");
    const auto found = id_of_.find(c.code_point);
    if (found == id_of_.end()) {
      fail(
          "the character \"{}\" (U+{:04X}) at {} is not in the model's vocabulary of {} characters; leave it out, or "
          "train on a text that has it",
          core::printable(text.substr(at, c.length)), c.code_point, place_of(text, at), tokens_.size() - 1);
    }
    ids.push_back(found->second);
    at += c.length;
  }
  return ids;
}

const std::string& CharTokenizer::token_bytes(int32_t id) const {
  require(id >= 0 && id < vocab_size(), "token {} is outside the vocabulary of {}", id, vocab_size());
  return tokens_[static_cast<size_t>(id)];
}

std::vector<int32_t> CharTokenizer::default_prompt() const {
  const auto newline = id_of_.find('\n');
  return {newline == id_of_.end() ? 0 : newline->second};
}

core::GgufMetadata CharTokenizer::vocabulary_to_gguf() const {
  constexpr int32_t kNormal = 1;
  constexpr int32_t kControl = 3;
  std::vector<std::string> tokens;
  std::vector<std::string> merges;
  for (size_t id = 0; id + 1 < tokens_.size(); ++id) {
    tokens.push_back(bytes_to_byte_level(tokens_[id]));
    for (size_t i = 1; i < tokens_[id].size(); ++i) {  // lead byte + next, then that + next, …
      merges.push_back(bytes_to_byte_level(tokens_[id].substr(0, i)) + " " +
                       bytes_to_byte_level(tokens_[id].substr(i, 1)));
    }
  }
  // Characters that begin with the same bytes share their first merges.
  std::set<std::string> seen;
  std::erase_if(merges, [&](const std::string& merge) { return !seen.insert(merge).second; });
  std::vector<int32_t> types(tokens.size(), kNormal);
  tokens.emplace_back(kEndOfText);
  types.push_back(kControl);
  const auto end = static_cast<uint32_t>(end_of_text());
  return {
      {"tokenizer.ggml.model", std::string("gpt2")},
      {"tokenizer.ggml.pre", std::string("gpt-2")},
      {"tokenizer.ggml.tokens", core::GgufArray{std::move(tokens)}},
      {"tokenizer.ggml.token_type", core::GgufArray{std::move(types)}},
      {"tokenizer.ggml.merges", core::GgufArray{std::move(merges)}},
      {"tokenizer.ggml.bos_token_id", end},
      {"tokenizer.ggml.eos_token_id", end},
      {"tokenizer.ggml.add_bos_token", false},
  };
}

void CharTokenizer::write_hf(const std::filesystem::path& directory) const {
  nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
  for (size_t id = 0; id + 1 < tokens_.size(); ++id) vocabulary[tokens_[id]] = id;
  vocabulary[std::string(kEndOfText)] = end_of_text();
  const nlohmann::ordered_json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {{{"id", end_of_text()},
         {"content", kEndOfText},
         {"single_word", false},
         {"lstrip", false},
         {"rstrip", false},
         {"normalized", false},
         {"special", true}}}},
      {"normalizer", nullptr},
      {"pre_tokenizer", nullptr},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", nlohmann::ordered_json::array()}}},
  };
  // Without the explicit class and tokens, AutoTokenizer takes Llama's and puts <s> in front.
  nlohmann::ordered_json config = {
      {"tokenizer_class", "PreTrainedTokenizerFast"},
      {"bos_token", kEndOfText},
      {"eos_token", kEndOfText},
      {"add_bos_token", false},
      {"add_eos_token", false},
      {"clean_up_tokenization_spaces", false},
      {"model_max_length", std::numeric_limits<int32_t>::max()},
  };
  if (!chat_template().empty()) config["chat_template"] = chat_template();
  core::write_file_atomically(directory / "tokenizer.json", tokenizer.dump(1) + "\n");
  core::write_file_atomically(directory / "tokenizer_config.json", config.dump(2) + "\n");
}

CharTokenizer CharTokenizer::read_hf(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "tokenizer.json";
  const std::string where = path.string();
  return from_hf(core::parse_json(core::read_text_file(path, size_t{64} << 20U), where), where);
}

bool CharTokenizer::is_hf(const nlohmann::json& tokenizer) {
  const nlohmann::json& model = hf::value(tokenizer, "model");
  const nlohmann::json& merges = hf::value(model, "merges");
  return merges.is_array() && merges.empty() && hf::value(model, "byte_fallback") != true &&
         hf::value(tokenizer, "pre_tokenizer").is_null();
}

CharTokenizer CharTokenizer::from_hf(const nlohmann::json& json, const std::string& where) {
  const nlohmann::json& model = core::json_at(json, "model", where);
  const nlohmann::json& vocabulary = core::json_at(model, "vocab", where);
  const nlohmann::json& merges = core::json_at(model, "merges", where);
  require(vocabulary.is_object() && merges.is_array() && merges.empty(),
          "{}: this is not a character tokenizer (a BPE vocabulary with no merges)", where);
  std::vector<std::string> tokens(vocabulary.size());
  std::vector<bool> seen(vocabulary.size());
  for (const auto& [token, id] : vocabulary.items()) {
    require(id.is_number_unsigned() && id.get<uint64_t>() < tokens.size() && !seen[id.get<size_t>()],
            "{}: the ids of the vocabulary are not 0 to {}", where, tokens.size() - 1);
    tokens[id.get<size_t>()] = token;
    seen[id.get<size_t>()] = true;
  }
  require(!tokens.empty() && tokens.back() == kEndOfText, "{}: the last token of a character vocabulary is {}", where,
          kEndOfText);
  tokens.pop_back();
  return CharTokenizer(std::move(tokens), where);
}

bool CharTokenizer::is_gguf(const core::GgufFile& file) {
  const std::vector<std::string>& tokens = file.strings("tokenizer.ggml.tokens");
  return !tokens.empty() && tokens.back() == kEndOfText &&
         std::all_of(tokens.begin(), tokens.end() - 1, [](const std::string& token) {
           const auto bytes = byte_level_to_bytes(token);
           if (!bytes || bytes->empty()) return false;
           const core::Utf8Char c = core::decode_utf8(*bytes, 0);
           return c.valid && c.length == bytes->size();
         });
}

CharTokenizer CharTokenizer::from_gguf(const core::GgufFile& file) {
  const std::string where = file.path().string();
  std::vector<std::string> tokens = file.strings("tokenizer.ggml.tokens");
  require(!tokens.empty() && tokens.back() == kEndOfText,
          "{}: only character vocabularies (one character a token, {} last) are supported here", where, kEndOfText);
  tokens.pop_back();
  for (std::string& token : tokens) {
    const auto bytes = byte_level_to_bytes(token);
    require(bytes.has_value(), "{}: the token \"{}\" is not in the byte-level alphabet", where, core::printable(token));
    token = *bytes;
  }
  CharTokenizer tokenizer(std::move(tokens), where + ": tokenizer");
  const int64_t end = tokenizer.end_of_text();
  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id"}) {
    const int64_t id = file.integer(key, end);
    require(id >= 0 && id <= end, "{}: {} is {}, but ids go from 0 to {}", where, key, id, end);
  }
  return tokenizer;
}

}  // namespace folio::data
