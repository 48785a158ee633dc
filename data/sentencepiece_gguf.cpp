// A SentencePiece vocabulary in a GGUF file, as llama.cpp reads and writes it: tokenizer.ggml.model is "llama".
#include <utility>

#include "core/error.h"
#include "data/sentencepiece.h"
#include "data/sentencepiece_text.h"

namespace folio::data {
namespace {

template <typename Item>
const std::vector<Item>& list(const core::GgufFile& file, const std::string& key, std::string_view of) {
  const core::GgufValue* value = file.find(key);
  const auto* array = value == nullptr ? nullptr : std::get_if<core::GgufArray>(value);
  const auto* items = array == nullptr ? nullptr : std::get_if<std::vector<Item>>(&array->items);
  core::require(items != nullptr, "{}: the metadata key {} is missing or not a list of {}", file.path().string(), key,
                of);
  return *items;
}

}  // namespace

SentencePieceTokenizer SentencePieceTokenizer::from_gguf(const core::GgufFile& file) {
  const std::string where = file.path().string() + ": tokenizer";
  const auto id = [&](const std::string& key, int64_t fallback) {
    const int64_t value = file.integer(key, fallback);
    core::require(std::in_range<int32_t>(value), "{}: {} is {}, which is no id", where, key, value);
    return static_cast<int32_t>(value);
  };
  SentencePieceVocabulary v;
  v.pieces = file.strings("tokenizer.ggml.tokens");
  v.scores = list<float>(file, "tokenizer.ggml.scores", "32-bit floating-point numbers");
  for (const int32_t type : list<int32_t>(file, "tokenizer.ggml.token_type", "32-bit integers")) {
    v.types.push_back(static_cast<PieceType>(type));
  }
  v.bos = id("tokenizer.ggml.bos_token_id", 1);
  v.eos = id("tokenizer.ggml.eos_token_id", 2);
  v.unk = id("tokenizer.ggml.unknown_token_id", !v.types.empty() && v.types[0] == PieceType::Unknown ? 0 : -1);
  v.eot = id("tokenizer.ggml.eot_token_id", -1);
  v.add_bos = file.boolean("tokenizer.ggml.add_bos_token", true);
  v.add_eos = file.boolean("tokenizer.ggml.add_eos_token", false);
  v.add_space_prefix = file.boolean("tokenizer.ggml.add_space_prefix", true);
  return {std::move(v), where};
}

core::GgufMetadata SentencePieceTokenizer::to_gguf() const {
  const SentencePieceVocabulary& v = vocabulary_;
  std::vector<int32_t> types;
  for (const PieceType type : v.types) types.push_back(static_cast<int32_t>(type));
  core::GgufMetadata metadata = {
      {"tokenizer.ggml.model", std::string("llama")},
      {"tokenizer.ggml.pre", std::string("default")},
      {"tokenizer.ggml.tokens", core::GgufArray{v.pieces}},
      {"tokenizer.ggml.scores", core::GgufArray{v.scores}},
      {"tokenizer.ggml.token_type", core::GgufArray{std::move(types)}},
      {"tokenizer.ggml.bos_token_id", static_cast<uint32_t>(v.bos)},
      {"tokenizer.ggml.eos_token_id", static_cast<uint32_t>(v.eos)},
      {"tokenizer.ggml.add_bos_token", v.add_bos},
      {"tokenizer.ggml.add_eos_token", v.add_eos},
      {"tokenizer.ggml.add_space_prefix", v.add_space_prefix},
  };
  if (v.unk >= 0) metadata.emplace_back("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(v.unk));
  if (v.eot >= 0) metadata.emplace_back("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(v.eot));
  if (!chat_template().empty()) metadata.emplace_back("tokenizer.chat_template", chat_template());
  return metadata;
}

}  // namespace folio::data
