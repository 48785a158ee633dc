#include "data/tokenizers/sentencepiece.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/sentencepiece_text.h"
#include "data/tokenizers/symbol_merger.h"

namespace folio::data {
namespace {

using core::fail;
using core::require;

// Returns the rank of a score: the best score has the lowest rank.
uint32_t rank_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0F);  // makes +0 and -0 equal
  return (bits & 0x80000000U) != 0 ? bits : ~(bits | 0x80000000U);
}

// Merges the symbols of one word. Returns all symbols; those of size 0 were merged into others and must be skipped.
const std::vector<Symbol>& merge(const SentencePieceTokenizer& tokenizer, std::string_view word, size_t longest,
                                 SymbolMerger& merger) {
  merger.clear();
  for (size_t at = 0; at < word.size();) {
    const size_t length = core::decode_utf8(word, at).length;  // 1 for a byte that is not UTF-8
    merger.add(at, length, tokenizer.piece_of(word.substr(at, length)));
    at += length;
  }
  return merger.merge([&](const Symbol& a, const Symbol& b) -> std::optional<Join> {
    if (a.id < 0 || b.id < 0 || a.size + b.size > longest) return std::nullopt;
    const int32_t id = tokenizer.piece_of(word.substr(a.begin, a.size + b.size));
    if (id < 0) return std::nullopt;
    return Join{.rank = rank_of(tokenizer.vocabulary().scores[static_cast<size_t>(id)]), .id = id};
  });
}

// Returns true if `text` has a space after a character other than a space.
bool has_space_after_text(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  return begin != std::string_view::npos && text.find(' ', begin) != std::string_view::npos;
}

}  // namespace

bool joins(const SentencePieceVocabulary& v, size_t id) {
  const bool is_text = v.types[id] == PieceType::Normal || v.types[id] == PieceType::UserDefined;
  // A piece with a space cannot match, since U+2581 has replaced the spaces of the text.
  return is_text && v.pieces[id].find(' ') == std::string::npos && !flags_of(v, static_cast<int32_t>(id)).apart;
}

void validate(const SentencePieceVocabulary& v, const std::string& where) {
  const size_t n = v.pieces.size();
  require(n == 0 || v.bos >= 0, "{}: the BOS token is {}, but IDs are 0 to {}", where, v.bos, n - 1);
  validate(static_cast<const Vocabulary&>(v), where);
  require(v.scores.size() == n, "{}: {} pieces, but {} scores", where, n, v.scores.size());
  std::unordered_set<std::string_view> seen;
  for (size_t i = 0; i < n; ++i) {
    const std::string& piece = v.pieces[i];
    require_piece_length(piece, i, where);
    if (!core::is_utf8(piece)) fail("{}: piece {} (\"{}\") is not UTF-8", where, i, core::printable(piece));
    if (!seen.insert(piece).second) fail("{}: piece {} (\"{}\") occurs twice", where, i, core::printable(piece));
    if (!std::isfinite(v.scores[i])) fail("{}: the score of piece {} is {}", where, i, v.scores[i]);
    if (v.types[i] == PieceType::Byte && !parse_byte_piece(piece)) {
      fail("{}: byte piece {} is \"{}\", but must be like \"<0x0A>\"", where, i, core::printable(piece));
    }
  }
}

SentencePieceTokenizer::SentencePieceTokenizer(SentencePieceVocabulary vocabulary, const std::string& where)
    : VocabularyTokenizer(std::move(vocabulary)), bytes_(vocabulary_.pieces.size()), ids_(bytes_) {
  validate(vocabulary_, where);
  byte_ids_.fill(-1);
  for (size_t i = 0; i < bytes_.size(); ++i) {
    const std::string& piece = vocabulary_.pieces[i];
    const auto id = static_cast<int32_t>(i);
    switch (vocabulary_.types[i]) {
      case PieceType::UserDefined:
      case PieceType::Normal:
        bytes_[i] = marks_to_spaces(piece);
        if (!joins(vocabulary_, i)) break;
        ids_.add(id);
        longest_ = std::max(longest_, bytes_[i].size());
        cut_words_ = cut_words_ && !has_space_after_text(bytes_[i]);
        break;
      case PieceType::Byte: {
        const uint8_t byte = *parse_byte_piece(piece);
        bytes_[i] = static_cast<char>(byte);
        byte_ids_[byte] = id;
        break;
      }
      case PieceType::Control:
      case PieceType::Unknown:
      case PieceType::Unused:
        break;
    }
  }
  require(piece_of(" ") >= 0, "{}: no piece is \"{}\", the space; this is not a SentencePiece vocabulary", where,
          kSpaceMark);
  Normalization normalization;
  if (vocabulary_.space_prefix == SpacePrefix::Normalizer) {
    normalization.map = spaces_to_marks;
    if (vocabulary_.add_space_prefix) normalization.prepend = kSpaceMark;
  }
  index_tokens(std::move(normalization));
}

std::vector<int32_t> SentencePieceTokenizer::encode_pieces(std::span<const PromptPiece> pieces) const {
  std::vector<int32_t> ids;
  const CutText cut = added_.cut(pieces);
  for (const CutText::Part& part : cut.parts) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      encode_stretch(cut.stretch(part), part.is_first, ids);
    }
  }
  return ids;
}

// Encodes a stretch of text between added tokens. Adds a leading space if Metaspace requires one. A space required by a
// normalizer is already in `text`.
void SentencePieceTokenizer::encode_stretch(std::string_view text, bool is_first, std::vector<int32_t>& ids) const {
  require(text.size() < size_t{INT32_MAX}, "a text of {} bytes is too long to encode at once", text.size());
  std::string plain = marks_to_spaces(text);
  const SpacePrefix where = vocabulary_.space_prefix;
  const bool may_add = where == SpacePrefix::Always || (where == SpacePrefix::First && is_first);
  if (vocabulary_.add_space_prefix && may_add && !plain.starts_with(' ')) plain.insert(plain.begin(), ' ');
  SymbolMerger merger;
  const size_t first = ids.size();
  for (size_t at = 0; at < plain.size();) {
    // If no piece has a space after another character, words can be encoded separately, which is faster.
    const size_t letters = cut_words_ ? plain.find_first_not_of(' ', at) : plain.size();
    const size_t end = std::min(plain.find(' ', vocabulary_.split_words ? at + 1 : letters), plain.size());
    const std::string_view word = std::string_view(plain).substr(at, end - at);
    for (const Symbol& s : merge(*this, word, longest_, merger)) {
      if (s.size == 0) continue;
      if (s.id >= 0) {
        ids.push_back(s.id);
      } else {
        append_without_piece(word.substr(s.begin, s.size), ids.size() > first && ids.back() == vocabulary_.unk, ids);
      }
    }
    at = end;
  }
}

void SentencePieceTokenizer::append_without_piece(std::string_view symbol, bool after_unknown,
                                                  std::vector<int32_t>& ids) const {
  const auto token = [&](char c) { return byte_ids_[static_cast<uint8_t>(c)]; };
  if (std::all_of(symbol.begin(), symbol.end(), [&](char c) { return token(c) >= 0; })) {
    for (const char c : symbol) ids.push_back(token(c));
    return;
  }
  require(vocabulary_.unk >= 0, "\"{}\" is not in the vocabulary, which has neither bytes nor an unknown token",
          core::printable(symbol));
  if (!after_unknown) ids.push_back(vocabulary_.unk);  // consecutive unknown characters become one token
}

const std::string& SentencePieceTokenizer::token_bytes(int32_t id) const { return bytes_[index_of(id)]; }

std::string SentencePieceTokenizer::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  bool stretch_begins = true;
  for (const int32_t token : tokens) {
    std::string_view bytes = token_bytes(token);
    const PieceType type = vocabulary_.types[static_cast<size_t>(token)];
    const bool between = type == PieceType::Control || type == PieceType::UserDefined;
    if (vocabulary_.add_space_prefix && stretch_begins && !between && bytes.starts_with(' ')) bytes.remove_prefix(1);
    text += bytes;
    stretch_begins = vocabulary_.space_prefix == SpacePrefix::Normalizer ? between : text.empty();
  }
  return text;
}

}  // namespace folio::data
