#include "data/tokenizers/added_tokens.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/utf8.h"
#include "data/tokenizers/unicode.h"
#include "data/tokenizers/vocabulary.h"

namespace folio::data {
namespace {

// Matches \w of Rust's regex: Alphabetic, marks, decimal digits, connectors and joiners (Unicode TS 18).
bool is_word(const core::Utf8Char& character) {
  constexpr std::array kCategories{UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                                   UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO, UTF8PROC_CATEGORY_MN,
                                   UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_ND,
                                   UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_PC};
  if (!character.valid) return false;
  const uint32_t c = character.code_point;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return std::ranges::find(kCategories, category) != kCategories.end() || c == 0x200C || c == 0x200D ||
         (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool begins_with_word(std::string_view text) { return !text.empty() && is_word(core::decode_utf8(text, 0)); }
bool ends_with_word(std::string_view text) { return !text.empty() && is_word(last_character(text)); }

bool is_space(const core::Utf8Char& c) { return c.valid && class_of(c.code_point) == CharClass::Space; }

size_t end_without_spaces(std::string_view text) {
  while (!text.empty()) {
    const core::Utf8Char c = last_character(text);
    if (!is_space(c)) break;
    text.remove_suffix(c.length);
  }
  return text.size();
}

}  // namespace

size_t spaces_at_begin(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const core::Utf8Char c = core::decode_utf8(text, at);
    if (!is_space(c)) break;
    at += c.length;
  }
  return at;
}

AddedTokens::AddedTokens(const Vocabulary& v, Normalization normalization) : normalization_(std::move(normalization)) {
  std::vector<SpecialToken> plain;
  std::vector<SpecialToken> normalized;
  for (size_t i = 0; i < v.pieces.size(); ++i) {
    const bool special = is_special(v.types[i]);
    if (!special && v.types[i] != PieceType::UserDefined) continue;
    SpecialToken token{.text = v.pieces[i],
                       .id = static_cast<int32_t>(i),
                       .flags = flags_of(v, static_cast<int32_t>(i)),
                       .is_special = special};
    if (!token.flags.normalized) {
      plain.push_back(std::move(token));
      continue;
    }
    if (normalization_.map) token.text = normalization_.prepend + normalization_.map(token.text);
    normalized.push_back(std::move(token));
  }
  plain_ = SpecialTokens(std::move(plain));
  normalized_ = SpecialTokens(std::move(normalized));
}

AddedTokens::ZonedText AddedTokens::normalized(const ZonedText& from, size_t begin, size_t end,
                                               std::string& own) const {
  const std::string_view text = from.text.substr(begin, end - begin);
  const auto map = [&](std::string_view part) {
    return normalization_.map ? normalization_.map(part) : std::string(part);
  };
  if (normalization_.map) own = normalization_.prepend + normalization_.map(text);
  ZonedText result{.text = normalization_.map ? std::string_view(own) : text};
  if (normalized_.empty()) return result;
  size_t size = normalization_.map ? normalization_.prepend.size() : 0;
  auto zone = std::ranges::upper_bound(from.zones, begin, {}, &Zone::end);
  for (size_t at = begin; at < end; ++zone) {
    const size_t zone_end = std::min(zone->end, end);
    size += map(from.text.substr(at, zone_end - at)).size();
    result.zones.push_back({.end = size, .parse_special = zone->parse_special});
    at = zone_end;
  }
  // Zones are ranges with or without parsing of special tokens. If NFC composed characters across the end of a zone,
  // the ends of zones in the normalized text are unknown. In that case, parse no special tokens.
  if (size != result.text.size()) result.zones = {{.end = result.text.size(), .parse_special = false}};
  return result;
}

template <typename Between, typename Found>
void AddedTokens::find(const SpecialTokens& tokens, const ZonedText& in, Between&& between, Found&& found) {
  const std::string_view text = in.text;
  size_t begin = 0;  // end of the previous token
  size_t zone = 0;
  for (size_t at = 0; at < text.size() && !tokens.empty();) {
    if (!tokens.may_begin(text[at])) {
      ++at;
      continue;
    }
    while (in.zones[zone].end <= at) ++zone;
    const SpecialToken* token = tokens.begin_of(text.substr(at), in.zones[zone].end - at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t from = at;
    size_t to = at + token->text.size();
    at = to;
    if (token->is_special && !in.zones[zone].parse_special) continue;
    const TokenFlags& flags = token->flags;
    if (flags.single_word && (ends_with_word(text.substr(0, from)) || begins_with_word(text.substr(to)))) continue;
    // The previous token's rstrip may have consumed spaces of this token.
    if (flags.lstrip) from = begin + (from > begin ? end_without_spaces(text.substr(begin, from - begin)) : 0);
    if (flags.rstrip) to = to < begin ? begin : to + spaces_at_begin(text.substr(to));
    if (begin < from) between(begin, from);
    if (from < to) found(*token);  // else the previous token consumed all of it
    begin = to;
  }
  if (begin < text.size()) between(begin, text.size());
}

CutText AddedTokens::cut(std::span<const PromptPiece> pieces) const {
  ZonedText whole;
  std::string joined;
  for (const PromptPiece& piece : pieces) {
    if (pieces.size() > 1) joined += piece.text;
    const size_t end = pieces.size() > 1 ? joined.size() : piece.text.size();
    if (!piece.text.empty()) whole.zones.push_back({.end = end, .parse_special = piece.parse_special});
  }
  if (!pieces.empty()) whole.text = pieces.size() > 1 ? std::string_view(joined) : pieces[0].text;
  CutText result;
  const auto found = [&](const SpecialToken& token) { result.parts.push_back({.id = token.id}); };
  find(
      plain_, whole,
      [&](size_t begin, size_t end) {
        std::string own;
        const ZonedText stretch = normalized(whole, begin, end, own);
        find(
            normalized_, stretch,
            [&](size_t b, size_t e) {
              result.parts.push_back({.begin = result.text.size(), .size = e - b, .is_first = begin == 0 && b == 0});
              result.text += stretch.text.substr(b, e - b);
            },
            found);
      },
      found);
  return result;
}

}  // namespace folio::data
