// Reads and writes byte-level BPE vocabularies in tokenizer.json of Hugging Face's tokenizers. Pieces are spelled in
// the byte-level alphabet; pre-tokenizers of known models are recognized by their published patterns.
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "data/tokenizers/bpe.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/hf/hf_tokenizer.h"

namespace folio::data {
namespace {

using core::require;
using hf::Json;

constexpr const char* kGpt2Pattern = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json byte_level(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

Json sequence(Json first, Json second) {
  return {{"type", "Sequence"}, {"pretokenizers", {std::move(first), std::move(second)}}};
}

Json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

Json pre_tokenizer_of(PreTokenizer kind) {
  if (kind == PreTokenizer::Gpt2) return byte_level(true);
  if (kind == PreTokenizer::Digits) {
    return sequence({{"type", "Digits"}, {"individual_digits", true}}, byte_level(true));
  }
  const char* pattern = kind == PreTokenizer::Llama3   ? kLlama3Pattern
                        : kind == PreTokenizer::O200k  ? kO200kPattern
                        : kind == PreTokenizer::Tekken ? kTekkenPattern
                                                       : kQwen2Pattern;
  return sequence(split(pattern), byte_level(false));
}

// Returns a pre-tokenizer without the option trim_offsets, which does not affect tokens, and with explicit defaults.
nlohmann::json plain(nlohmann::json pre_tokenizer) {
  if (!pre_tokenizer.is_object()) return pre_tokenizer;
  if (pre_tokenizer.contains("pretokenizers") && pre_tokenizer["pretokenizers"].is_array()) {
    for (nlohmann::json& step : pre_tokenizer["pretokenizers"]) step = plain(std::move(step));
  }
  pre_tokenizer.erase("trim_offsets");
  if (hf::value(pre_tokenizer, "type") == "ByteLevel") pre_tokenizer.emplace("use_regex", true);
  return pre_tokenizer;
}

PreTokenizer read_pre_tokenizer(const hf::TokenizerFiles& source) {
  const nlohmann::json& theirs = hf::value(source.tokenizer, "pre_tokenizer");
  const nlohmann::json simple = plain(theirs);
  for (const PreTokenizer kind : {PreTokenizer::Gpt2, PreTokenizer::Digits, PreTokenizer::Llama3, PreTokenizer::Qwen2,
                                  PreTokenizer::O200k, PreTokenizer::Tekken}) {
    if (simple == plain(pre_tokenizer_of(kind))) return kind;
  }
  hf::supported(simple == plain(sequence(split(kGpt2Pattern), byte_level(false))), source.where, "the pre-tokenizer {}",
                hf::shown(theirs));
  return PreTokenizer::Gpt2;
}

// Returns a post-processor without its ByteLevel step, which only changes offsets.
nlohmann::json template_in(const nlohmann::json& post_processor) {
  const auto is_byte_level = [](const nlohmann::json& step) { return hf::value(step, "type") == "ByteLevel"; };
  if (is_byte_level(post_processor)) return nullptr;
  if (hf::value(post_processor, "type") != "Sequence") return post_processor;
  const nlohmann::json& steps = hf::value(post_processor, "processors");
  if (!steps.is_array()) return post_processor;
  nlohmann::json rest;
  for (const nlohmann::json& step : steps) {
    if (is_byte_level(step)) continue;
    if (!rest.is_null()) return post_processor;
    rest = step;
  }
  return rest;
}

void read_merges(const hf::TokenizerFiles& source, const nlohmann::json& model, const std::vector<std::string>& spelt,
                 BpeVocabulary& v) {
  const MergeReader merges(spelt);
  for (const nlohmann::json& entry : core::json_list(model, "merges", source.where)) {
    const auto [left, right] = hf::merge_of(entry, source.where);
    require(merges.append(v, left, right), "{}: the merge {} does not join two tokens into a third", source.where,
            hf::shown(entry));
  }
}

}  // namespace

bool BpeTokenizer::is_hf(const nlohmann::json& tokenizer) {
  const nlohmann::json& pre_tokenizer = hf::value(tokenizer, "pre_tokenizer");
  const bool has_marks = hf::value(pre_tokenizer, "type") == "Metaspace" &&
                         hf::value(hf::value(tokenizer, "decoder"), "type") != "ByteLevel";
  return !pre_tokenizer.is_null() && !has_marks && hf::value(hf::value(tokenizer, "model"), "byte_fallback") != true;
}

BpeTokenizer BpeTokenizer::from_hf(const hf::TokenizerFiles& source) {
  const std::string& where = source.where;
  const nlohmann::json& model = hf::read_model(source);
  BpeVocabulary v;
  v.pre_tokenizer = read_pre_tokenizer(source);
  v.ignore_merges = hf::value(model, "ignore_merges") == true;
  const nlohmann::json& normalizer = hf::value(source.tokenizer, "normalizer");
  v.nfc = normalizer == nlohmann::json{{"type", "NFC"}};
  hf::supported(normalizer.is_null() || v.nfc, where, "the normalizer {}", hf::shown(normalizer));
  const nlohmann::json& decoder = hf::value(source.tokenizer, "decoder");
  hf::supported(hf::value(decoder, "type") == "ByteLevel", where, "the decoder {}", hf::shown(decoder));
  hf::read_pieces(source, v);
  hf::read_special_ids(source, v);
  hf::read_template(source, template_in(hf::value(source.tokenizer, "post_processor")), v);
  validate(v, where);
  const std::vector<std::string> spelt = v.pieces;
  from_byte_level(v, where);
  size_t n_bytes = 0;
  for (size_t i = 0; i < spelt.size(); ++i) n_bytes += v.types[i] == PieceType::Normal && v.pieces[i].size() == 1;
  const nlohmann::json& unknown = hf::value(model, "unk_token");
  hf::supported(unknown.is_null() || n_bytes == 256, where, "unk_token = {} without tokens for all bytes",
                hf::shown(unknown));
  read_merges(source, model, spelt, v);
  return {std::move(v), where};
}

HfFiles BpeTokenizer::to_hf() const {
  BpeVocabulary v = vocabulary_;
  hf::drop_padding(v);  // config.json's vocab_size counts these pieces, but tokenizer.json has no entries for them
  const std::vector<std::string> spelt = to_byte_level(v);
  return hf::files_of(v, chat_templates(),
                      {.pieces = spelt,
                       .merges = spelled_merges(v, spelt),
                       .ignore_merges = v.ignore_merges,
                       .normalizer = v.nfc ? Json{{"type", "NFC"}} : Json(),
                       .pre_tokenizer = pre_tokenizer_of(v.pre_tokenizer),
                       .decoder = byte_level(true)});
}

}  // namespace folio::data
