#include "data/tokenizers/char_tokenizer.h"

#include <set>

#include "core/error.h"
#include "core/utf8.h"

namespace folio::data {
namespace {

using core::fail;
using core::require;

std::string place_of(std::string_view text, size_t at) {
  core::TextPlace place;
  place.move_past(text.substr(0, at));
  return fmt::format("line {}, column {}", place.line, place.column);
}

core::Utf8Char character_at(std::string_view text, size_t at, const std::string& where) {
  const core::Utf8Char c = core::decode_utf8(text, at);
  if (!c.valid) {  // require() would evaluate place_of(), a scan of the text, for each character
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
    : VocabularyTokenizer(Vocabulary{}) {
  require(!characters.empty(), "{}: the vocabulary is empty", where);
  for (size_t id = 0; id < characters.size(); ++id) {
    const auto code_point = character_in(characters[id]);
    if (!code_point) {
      fail("{}: token {} (\"{}\") is not one character", where, id, core::printable(characters[id]));
    }
    if (!id_of_.emplace(*code_point, static_cast<int32_t>(id)).second) {
      fail("{}: the character \"{}\" occurs twice", where, core::printable(characters[id]));
    }
  }
  vocabulary_.bos = vocabulary_.eos = static_cast<int32_t>(characters.size());
  vocabulary_.types.assign(characters.size(), PieceType::Normal);
  vocabulary_.types.push_back(PieceType::Control);
  vocabulary_.pieces = std::move(characters);
  vocabulary_.pieces.emplace_back(kEndOfText);
  index_tokens();
}

CharTokenizer CharTokenizer::from_pieces(std::vector<std::string> pieces, const std::string& where) {
  require(!pieces.empty() && pieces.back() == kEndOfText, "{}: the last token of a character vocabulary must be {}",
          where, kEndOfText);
  pieces.pop_back();
  return CharTokenizer(std::move(pieces), where);
}

std::optional<uint32_t> CharTokenizer::character_in(std::string_view bytes) {
  if (bytes.empty()) return std::nullopt;
  const core::Utf8Char c = core::decode_utf8(bytes, 0);
  return c.valid && c.length == bytes.size() ? std::optional(c.code_point) : std::nullopt;
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const core::Utf8Char c = character_at(text, at, "the text");
    const auto found = id_of_.find(c.code_point);
    if (found == id_of_.end()) {
      fail(
          "the character \"{}\" (U+{:04X}) at {} is not in the model's vocabulary of {} characters; remove it, or "
          "train on a text that contains it",
          core::printable(text.substr(at, c.length)), c.code_point, place_of(text, at), id_of_.size());
    }
    ids.push_back(found->second);
    at += c.length;
  }
  return ids;
}

const std::string& CharTokenizer::token_bytes(int32_t id) const {
  static const std::string none;
  const std::string& piece = vocabulary_.pieces[index_of(id)];
  return id == end_of_text() ? none : piece;
}

std::vector<int32_t> CharTokenizer::default_prompt() const {
  const auto newline = id_of_.find('\n');
  return {newline == id_of_.end() ? 0 : newline->second};
}

}  // namespace folio::data
