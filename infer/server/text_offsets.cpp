#include "infer/server/text_offsets.h"

#include <algorithm>
#include <optional>

#include "core/utf8.h"
#include "data/tokenizers/unicode.h"

namespace folio::infer::server {
namespace {

constexpr size_t kLongestGroup = 32;  // maximum bytes of successive tokens that are joined to match the text

size_t length_at(std::string_view text, size_t at) {
  const core::Utf8Char c = core::decode_utf8(text, at);
  if (c.valid) return c.length;
  size_t n = 1;
  while (at + n < text.size() && core::decode_utf8(text.substr(0, at + n + 1), at).truncated) ++n;
  return n;
}

// Returns the length of the prefix of `text` that equals `bytes`, or `bytes` without a leading space, which
// SentencePiece may have added. Returns nullopt if there is no such prefix.
std::optional<size_t> size_of(std::string_view text, std::string_view bytes) {
  if (text.starts_with(bytes)) return bytes.size();
  if (bytes.starts_with(' ') && text.starts_with(bytes.substr(1))) return bytes.size() - 1;
  return std::nullopt;
}

// Returns the length of the prefix of `text` that equals `bytes`, with or without a leading space, as in size_of(), or
// whose Unicode normalization (NFC) equals `bytes`. Returns nullopt if there is no such prefix.
std::optional<size_t> spelled_at(std::string_view text, std::string_view bytes) {
  if (const auto size = size_of(text, bytes)) return size;
  const size_t longest = std::min(text.size(), 4 * bytes.size());
  for (size_t n = 0; n < longest;) {
    n += length_at(text, n);
    if (data::to_nfc(text.substr(0, n)) == bytes) return n;
  }
  return std::nullopt;
}

}  // namespace

size_t CharacterCounter::add(std::string_view bytes) {
  const size_t old = unfinished_.size();
  const std::string text = unfinished_.append(bytes);
  std::optional<size_t> first;
  size_t at = 0;
  while (at < text.size() && !core::decode_utf8(text, at).truncated) {
    at += length_at(text, at);
    if (at > old && !first) first = n_;
    ++n_;
  }
  unfinished_ = text.substr(at);
  return first.value_or(n_);
}

std::vector<size_t> text_offsets(const data::Tokenizer& tokenizer, const Prompt& prompt) {
  const std::vector<int32_t>& tokens = prompt.tokens;
  std::vector<size_t> offsets;
  offsets.reserve(tokens.size());
  CharacterCounter counter;
  std::string_view rest = prompt.text;
  const auto skip = [&](size_t n) {
    static_cast<void>(counter.add(rest.substr(0, n)));
    rest.remove_prefix(n);
  };
  const auto take = [&](size_t n) {
    offsets.push_back(counter.add({}));
    skip(n);
  };
  const auto special_of = [&](int32_t token) {
    return tokenizer.token_bytes(token).empty() ? tokenizer.special_tokens().token_of(token) : nullptr;
  };
  while (offsets.size() < prompt.n_added) take(0);
  while (offsets.size() < tokens.size()) {
    const size_t i = offsets.size();
    if (const data::SpecialToken* special = special_of(tokens[i])) {
      const size_t at = prompt.parse_special ? rest.find(special->text) : std::string_view::npos;
      if (at == std::string_view::npos) {
        take(0);
        continue;
      }
      size_t end = at + special->text.size();
      if (special->flags.rstrip) end += data::spaces_at_begin(rest.substr(end));
      take(end);
      continue;
    }
    // `spelled` is the tokens' text up to the next special token. SentencePiece may have added a leading space to it.
    std::string spelled;
    for (size_t j = i; j < tokens.size() && special_of(tokens[j]) == nullptr; ++j) {
      spelled += tokenizer.token_bytes(tokens[j]);
    }
    const bool has_space =
        !rest.starts_with(spelled) && spelled.starts_with(' ') && rest.starts_with(std::string_view(spelled).substr(1));
    std::string group;  // bytes of successive tokens that match the text only when joined
    for (size_t j = i; j < tokens.size() && special_of(tokens[j]) == nullptr; ++j) {
      group += tokenizer.token_bytes(tokens[j]);
      if (j == i && has_space) group.erase(0, 1);
      const size_t spaces = data::spaces_at_begin(rest);  // the preceding user-defined token may have absorbed spaces
      if (spaces > 0 && !size_of(rest, group) && size_of(rest.substr(spaces), group)) skip(spaces);
      auto size = spelled_at(rest, group);
      if (!size && group.size() > kLongestGroup) size = std::min(group.size(), rest.size());
      take(size.value_or(0));
      if (size) group.clear();
    }
  }
  return offsets;
}

}  // namespace folio::infer::server
