#include "data/tokenizers/tokenizer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>

#include "core/error.h"
#include "core/file_io.h"

namespace folio::data {

std::vector<int32_t> Tokenizer::encode_pieces(std::span<const PromptPiece> pieces) const {
  std::vector<int32_t> ids;
  const CutText cut = AddedTokens(special_tokens()).cut(pieces);
  for (const CutText::Part& part : cut.parts) {
    const std::vector<int32_t> more = part.id >= 0 ? std::vector{part.id} : encode(cut.stretch(part));
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text, const PromptOptions& options) const {
  const std::array<PromptPiece, 1> pieces = {{{.text = text, .parse_special = options.parse_special}}};
  std::vector<int32_t> ids = encode_pieces(pieces);
  return options.add_special ? with_prefix(std::move(ids)) : ids;
}

std::vector<int32_t> Tokenizer::with_prefix(std::vector<int32_t> tokens) const {
  const std::vector<int32_t> prefix = prefix_tokens();
  const bool has_prefix = tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  if (!has_prefix) tokens.insert(tokens.begin(), prefix.begin(), prefix.end());
  return tokens;
}

const SpecialTokens& Tokenizer::special_tokens() const {
  static const SpecialTokens none;
  return none;
}

core::GgufMetadata Tokenizer::to_gguf() const {
  core::GgufMetadata metadata = vocabulary_to_gguf();
  // Store tokens set by end_at() under those of the keys EOS, EOT and EOM that are unused. Other programs read the
  // tokens that stop generation from these three keys.
  const auto id_at = [&](const char* key) -> const uint32_t* {
    const auto found = std::ranges::find(metadata, std::string_view(key), &core::GgufMetadata::value_type::first);
    return found == metadata.end() ? nullptr : std::get_if<uint32_t>(&found->second);
  };
  constexpr std::array kEnds{"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                             "tokenizer.ggml.eom_token_id"};
  for (const int32_t id : ends_) {
    const auto is_there = [&](const char* key) { return id_at(key) != nullptr && std::cmp_equal(*id_at(key), id); };
    if (std::ranges::any_of(kEnds, is_there)) continue;
    const auto* const free = std::ranges::find(kEnds, nullptr, id_at);
    if (free != kEnds.end()) metadata.emplace_back(*free, static_cast<uint32_t>(id));
  }
  // Write several templates as Python's gguf package does: a list of names, and one key per template.
  std::vector<std::string> names;
  for (const auto& [name, text] : chat_templates_) {
    if (name == kDefaultTemplate) continue;
    std::string plain = name;
    std::ranges::replace_if(
        plain, [](unsigned char c) { return c >= 0x80 || std::isalnum(c) == 0; }, '_');
    const std::string key = fmt::format("{}.{}", kGgufChatTemplate, plain);
    if (std::ranges::find(metadata, key, &core::GgufMetadata::value_type::first) != metadata.end()) continue;
    metadata.emplace_back(key, text);
    names.push_back(std::move(plain));
  }
  if (!names.empty()) metadata.emplace_back("tokenizer.chat_templates", core::GgufArray{std::move(names)});
  if (!chat_template().empty()) metadata.emplace_back(kGgufChatTemplate, chat_template());
  return metadata;
}

const std::string& Tokenizer::chat_template() const {
  static const std::string none;
  const auto found = chat_templates_.find(kDefaultTemplate);
  return found == chat_templates_.end() ? none : found->second;
}

void Tokenizer::set_chat_template(std::string text) {
  chat_templates_.clear();
  if (!text.empty()) chat_templates_[kDefaultTemplate] = std::move(text);
}

core::GgufMetadata Tokenizer::vocabulary_to_gguf() const {
  core::fail("a {} tokenizer cannot be written to a GGUF file", kind());
}

HfFiles Tokenizer::to_hf() const { core::fail("a {} tokenizer cannot be written as tokenizer.json", kind()); }

void Tokenizer::write_hf(const std::filesystem::path& directory) const {
  const HfFiles files = to_hf();
  core::write_file_atomically(directory / "tokenizer.json", files.tokenizer);
  core::write_file_atomically(directory / "tokenizer_config.json", files.config);
}

}  // namespace folio::data
