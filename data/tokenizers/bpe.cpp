#include "data/tokenizers/bpe.h"

#include <bit>
#include <cstring>
#include <unordered_set>

#include "core/error.h"
#include "core/utf8.h"
#include "data/tokenizers/byte_level.h"
#include "data/tokenizers/unicode.h"

namespace folio::data {
namespace {

using core::fail;
using core::require;

// Caches the tokens of recent words, since most texts repeat few distinct words. The cache is a hash table of fixed
// size, in which a new word replaces the previous word of the same slot.
class WordCache {
 public:
  explicit WordCache(std::string_view text)
      : text_(text), slots_(std::bit_ceil(std::clamp<size_t>(text.size() / 16, 64, size_t{1} << 14U))) {}

  /// If text[begin, end) is cached, appends its tokens to `ids` and returns true.
  bool append_known(size_t begin, size_t end, std::vector<int32_t>& ids) {
    const std::string_view word = text_.substr(begin, end - begin);
    if (word.size() > kLongest) return false;
    const Slot& slot = slot_of(word);
    if (slot.size != word.size() || text_.substr(slot.begin, slot.size) != word) return false;
    const size_t at = ids.size();
    ids.resize(at + slot.n_tokens);
    std::copy_n(ids.begin() + slot.first_token, slot.n_tokens, ids.begin() + static_cast<ptrdiff_t>(at));
    return true;
  }

  /// Caches the word text[begin, end), whose tokens are `ids` from index `first` to the end.
  void remember(size_t begin, size_t end, size_t first, const std::vector<int32_t>& ids) {
    if (end - begin > kLongest) return;
    slot_of(text_.substr(begin, end - begin)) = {.begin = static_cast<uint32_t>(begin),
                                                 .size = static_cast<uint32_t>(end - begin),
                                                 .first_token = static_cast<uint32_t>(first),
                                                 .n_tokens = static_cast<uint32_t>(ids.size() - first)};
  }

 private:
  static constexpr size_t kLongest = 48;  ///< maximum bytes of a cached word; longer words rarely repeat

  struct Slot {
    uint32_t begin = 0;
    uint32_t size = 0;  ///< bytes of the word; 0: the slot is empty
    uint32_t first_token = 0;
    uint32_t n_tokens = 0;
  };

  // Returns the slot of a word. Hashes eight bytes per multiplication; a simple hash suffices, since a collision only
  // costs time.
  Slot& slot_of(std::string_view word) {
    uint64_t hash = word.size();
    for (size_t at = 0; at < word.size(); at += 8) {
      uint64_t bytes = 0;
      std::memcpy(&bytes, word.data() + at, std::min<size_t>(8, word.size() - at));
      hash = (hash ^ bytes) * 0x9E3779B97F4A7C15U;
      hash ^= hash >> 32U;
    }
    return slots_[hash & (slots_.size() - 1)];
  }

  std::string_view text_;
  std::vector<Slot> slots_;
};

void require_new(bool is_new, size_t id, std::string_view piece, const std::string& where) {
  if (!is_new) fail("{}: token {} (\"{}\") occurs twice", where, id, core::printable(piece));
}

// Returns true if words can contain the piece: it is normal, or user-defined and spelled unchanged in the byte-level
// alphabet.
bool is_word_piece(const BpeVocabulary& v, int32_t id) {
  const auto i = static_cast<size_t>(id);
  return v.types[i] == PieceType::Normal ||
         (v.types[i] == PieceType::UserDefined && byte_level_to_bytes(v.pieces[i]) == v.pieces[i]);
}

}  // namespace

MergeReader::MergeReader(const std::vector<std::string>& spelled) : ids_(spelled) {
  for (size_t i = 0; i < spelled.size(); ++i) {
    if (ids_.find(spelled[i]) < 0) ids_.add(static_cast<int32_t>(i));
  }
}

bool MergeReader::append(BpeVocabulary& v, const std::string& left, const std::string& right) const {
  const std::array<int32_t, 3> ids{ids_.find(left), ids_.find(right), ids_.find(left + right)};
  if (std::ranges::any_of(ids, [](int32_t id) { return id < 0; })) return false;
  if (std::ranges::all_of(ids, [&](int32_t id) { return is_word_piece(v, id); })) {
    v.merges.push_back({.left = ids[0], .right = ids[1], .joined = ids[2]});
  }
  return true;
}

std::vector<std::string> spelled_merges(const BpeVocabulary& v, const std::vector<std::string>& spelled) {
  std::vector<std::string> merges;
  for (const auto& [left, right, joined] : v.merges) {
    merges.push_back(spelled[static_cast<size_t>(left)] + " " + spelled[static_cast<size_t>(right)]);
  }
  return merges;
}

class BpeTokenizer::Encoder {
 public:
  Encoder(const BpeTokenizer& tokenizer, CutText text)
      : tokenizer_(tokenizer), text_(std::move(text)), cache_(text_.text) {
    const size_t size = text_.text.size();
    require(size < size_t{INT32_MAX}, "a text of {} bytes is too long to encode at once", size);
    ids_.reserve(size / 4);
  }

  std::vector<int32_t> encode() && {
    for (const CutText::Part& part : text_.parts) {
      if (part.id >= 0) {
        ids_.push_back(part.id);
      } else {
        add_stretch(text_.stretch(part), part.begin);
      }
    }
    return std::move(ids_);
  }

 private:
  void add_stretch(std::string_view stretch, size_t offset) {
    for (size_t begin = 0; begin < stretch.size();) {
      const size_t end = word_end(tokenizer_.vocabulary_.pre_tokenizer, stretch, begin);
      if (!cache_.append_known(offset + begin, offset + end, ids_)) {
        const size_t first = ids_.size();
        add_word(stretch.substr(begin, end - begin));
        cache_.remember(offset + begin, offset + end, first, ids_);
      }
      begin = end;
    }
  }

  void add_word(std::string_view word) {
    if (tokenizer_.words_) {
      const int32_t id = tokenizer_.words_->find(word);
      if (id >= 0) return ids_.push_back(id);
    }
    merger_.clear();
    for (size_t i = 0; i < word.size(); ++i) {
      const int32_t id = tokenizer_.byte_ids_[static_cast<unsigned char>(word[i])];
      if (id >= 0) merger_.add(i, 1, id);
    }
    const auto rule = [&](const Symbol& a, const Symbol& b) {
      const Join* merge = tokenizer_.merges_.find(pair_of(a.id, b.id));
      return merge == nullptr ? std::nullopt : std::optional(*merge);
    };
    for (const Symbol& symbol : merger_.merge(rule)) {
      if (symbol.size > 0) ids_.push_back(symbol.id);
    }
  }

  const BpeTokenizer& tokenizer_;
  CutText text_;
  WordCache cache_;
  SymbolMerger merger_;
  std::vector<int32_t> ids_;
};

BpeTokenizer::BpeTokenizer(BpeVocabulary vocabulary, const std::string& where)
    : VocabularyTokenizer(std::move(vocabulary)), merges_(vocabulary_.merges.size()) {
  validate(vocabulary_, where);
  const std::vector<std::string>& pieces = vocabulary_.pieces;
  byte_ids_.fill(-1);
  TextIndex words(pieces);
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (pieces[i].empty()) fail("{}: token {} is empty", where, i);
    if (vocabulary_.types[i] != PieceType::Normal) continue;
    require_new(words.find(pieces[i]) < 0, i, pieces[i], where);
    words.add(id);
    if (pieces[i].size() == 1) byte_ids_[static_cast<unsigned char>(pieces[i][0])] = id;
  }
  std::unordered_set<std::string_view> others;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (vocabulary_.types[i] == PieceType::Normal) continue;
    if (!core::is_utf8(pieces[i])) fail("{}: token {} (\"{}\") is not UTF-8", where, i, core::printable(pieces[i]));
    const auto bytes = byte_level_to_bytes(pieces[i]);  // a normal piece with these bytes is spelled the same in files
    require_new(others.insert(pieces[i]).second && (!bytes || words.find(*bytes) < 0), i, pieces[i], where);
    const auto id = static_cast<int32_t>(i);
    if (is_word_piece(vocabulary_, id) && pieces[i].size() == 1)
      byte_ids_[static_cast<unsigned char>(pieces[i][0])] = id;
  }
  for (size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const auto& [left, right, joined] = vocabulary_.merges[rank];
    for (const int32_t id : {left, right, joined}) {
      require(id >= 0 && id < vocab_size() && is_word_piece(vocabulary_, id),
              "{}: a merge has token {}, which no text can contain", where, id);
    }
    const auto piece = [&](int32_t id) -> std::string_view { return pieces[static_cast<size_t>(id)]; };
    const std::string_view whole = piece(joined);
    if (!whole.starts_with(piece(left)) || whole.substr(piece(left).size()) != piece(right)) {
      fail("{}: merging tokens {} and {} does not make token {}", where, left, right, joined);
    }
    require(merges_.find(pair_of(left, right)) == nullptr, "{}: merge {} occurs twice", where, rank);
    merges_[pair_of(left, right)] = {.rank = static_cast<uint32_t>(rank), .id = joined};
    if (words.find(whole) < 0) words.add(joined);  // true only for user-defined pieces; normal ones are in the index
  }
  if (vocabulary_.ignore_merges) words_ = std::move(words);
  index_tokens({.map = vocabulary_.nfc ? to_nfc : nullptr});
}

std::vector<int32_t> BpeTokenizer::encode_pieces(std::span<const PromptPiece> pieces) const {
  return Encoder(*this, added_.cut(pieces)).encode();
}

const std::string& BpeTokenizer::token_bytes(int32_t id) const {
  static const std::string none;
  const size_t i = index_of(id);
  const PieceType type = vocabulary_.types[i];
  return type == PieceType::Normal || type == PieceType::UserDefined ? vocabulary_.pieces[i] : none;
}

}  // namespace folio::data
