#include "data/tokenizers/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"

namespace folio::data {

std::vector<int32_t> Tokenizer::encode_pieces(std::span<const TextPiece> pieces) const {
  std::vector<int32_t> ids;
  std::string ordinary;  // text since the last special token
  const auto flush = [&] {
    if (ordinary.empty()) return;
    const std::vector<int32_t> more = encode(ordinary);
    ids.insert(ids.end(), more.begin(), more.end());
    ordinary.clear();
  };
  for (const TextPiece& piece : pieces) {
    if (!piece.parse_special) {
      ordinary += piece.text;
      continue;
    }
    special_tokens().split(
        piece.text, [&](std::string_view text) { ordinary += text; },
        [&](const SpecialToken& token) {
          flush();
          ids.push_back(token.id);
        });
  }
  flush();
  return ids;
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text, const PromptOptions& options) const {
  const std::array<TextPiece, 1> pieces = {{{.text = text, .parse_special = options.parse_special}}};
  std::vector<int32_t> ids = encode_pieces(pieces);
  return options.add_special ? with_prefix(std::move(ids)) : ids;
}

std::vector<int32_t> Tokenizer::with_prefix(std::vector<int32_t> tokens) const {
  const std::vector<int32_t> prefix = prefix_tokens();
  const bool has_prefix = tokens.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tokens.begin());
  if (!has_prefix) tokens.insert(tokens.begin(), prefix.begin(), prefix.end());
  return tokens;
}

std::vector<int32_t> Tokenizer::encode_with_prefix(std::string_view text) const {
  std::vector<int32_t> ids = prefix_tokens();
  const std::vector<int32_t> own = encode(text);
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

const SpecialTokens& Tokenizer::special_tokens() const {
  static const SpecialTokens none;
  return none;
}

core::GgufMetadata Tokenizer::to_gguf() const {
  core::GgufMetadata metadata = vocabulary_to_gguf();
  if (!chat_template_.empty()) metadata.emplace_back(kGgufChatTemplate, chat_template_);
  return metadata;
}

core::GgufMetadata Tokenizer::vocabulary_to_gguf() const {
  core::fail("a {} tokenizer cannot be written to a GGUF file", kind());
}

void Tokenizer::write_hf(const std::filesystem::path& directory) const {
  core::fail("{}: a {} tokenizer cannot be written as tokenizer.json", directory.string(), kind());
}

}  // namespace folio::data
