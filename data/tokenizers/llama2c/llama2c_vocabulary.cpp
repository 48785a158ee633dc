#include "data/tokenizers/llama2c/llama2c_vocabulary.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/file_io.h"
#include "core/mapped_file.h"
#include "data/tokenizers/sentencepiece_text.h"

namespace folio::data {
namespace {

using core::fail;
using core::require;

constexpr int32_t kUnknown = 0;
constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;
constexpr int32_t kFirstByte = 3;
constexpr int32_t kFirstPiece = kFirstByte + 256;
// llama2.c finds control tokens by their text, too. The line breaks keep the text of prompts from merging into them.
constexpr std::string_view kBosPiece = "\n<s>\n";
constexpr std::string_view kEosPiece = "\n</s>\n";

// Reads the numbers and pieces of a file in order, with bounds checks.
class PieceReader {
 public:
  explicit PieceReader(const core::MappedFile& file) : file_(file) {}

  [[nodiscard]] size_t remaining() const { return file_.bytes().size() - at_; }

  template <typename T>
  T number(size_t piece) {
    T value;
    std::memcpy(&value, take(sizeof(T), piece), sizeof(T));
    return value;
  }

  std::string text(int32_t length, size_t piece) {
    if (length <= 0 || std::cmp_greater(length, kLongestPiece)) {
      fail_at(piece, fmt::format("has length {}, but must be in [1, {}]", length, kLongestPiece));
    }
    return {take(static_cast<size_t>(length), piece), static_cast<size_t>(length)};
  }

  [[noreturn]] void fail_at(size_t piece, const std::string& what) const {
    fail("{}: piece {} {} (byte {}); the file is damaged or not a llama2.c tokenizer.bin", file_.path().string(), piece,
         what, at_);
  }

 private:
  const char* take(size_t size, size_t piece) {
    if (size > remaining()) fail_at(piece, fmt::format("needs {} bytes, but only {} are left", size, remaining()));
    const auto* bytes = reinterpret_cast<const char*>(file_.bytes().data()) + at_;
    at_ += size;
    return bytes;
  }

  const core::MappedFile& file_;
  size_t at_ = 0;
};

// Returns true if `piece` spells the byte `id` - 3, such as "<0x20>". An ASCII byte may also be spelled as its
// character, as to_llama2c() does for the space.
bool is_byte_piece(const std::string& piece, size_t id) {
  const auto byte = static_cast<uint8_t>(id - kFirstByte);
  return parse_byte_piece(piece) == byte || (byte < 0x80 && piece == std::string(1, static_cast<char>(byte)));
}

Llama2cVocabulary of_characters(const CharTokenizer& tokenizer) {
  Llama2cVocabulary v;
  v.pieces = {"<unk>", std::string(kBosPiece), std::string(kEosPiece)};
  for (int byte = 0; byte < 256; ++byte) v.pieces.push_back(byte_piece(static_cast<uint8_t>(byte)));
  // llama2.c looks up " " for every prompt, and would not find a space spelled as a byte.
  v.pieces[kFirstByte + ' '].assign(1, ' ');
  v.source_row.assign(v.pieces.size(), tokenizer.end_of_text());
  const std::vector<std::string> characters = tokenizer.characters();
  for (size_t id = 0; id < characters.size(); ++id) {
    const std::string& c = characters[id];
    const auto row = static_cast<int32_t>(id);
    if (c.size() == 1) {
      v.source_row[kFirstByte + static_cast<unsigned char>(c[0])] = row;
    } else {
      v.pieces.push_back(c);
      v.source_row.push_back(row);
    }
  }
  v.scores.assign(v.pieces.size(), 0.0F);  // all equal, since no two pieces can be merged into a third
  return v;
}

Llama2cVocabulary of_pieces(const SentencePieceTokenizer& tokenizer) {
  const SentencePieceVocabulary& from = tokenizer.vocabulary();
  require(from.unk == kUnknown && from.bos == kBos && from.eos == kEos && tokenizer.vocab_size() >= kFirstPiece,
          "llama2.c requires token 0 as unknown, 1 as BOS, 2 as EOS and 256 byte tokens after them; this vocabulary "
          "has {}, {}, {} and {} tokens",
          from.unk, from.bos, from.eos, tokenizer.vocab_size());
  require(from.add_bos && !from.add_eos && from.add_space_prefix,
          "llama2.c adds BOS and a space before a text and nothing after it; this vocabulary does not");
  Llama2cVocabulary to;
  for (size_t id = 0; id < from.pieces.size(); ++id) {
    const std::string& piece = from.pieces[id];
    if (from.types[id] == PieceType::UserDefined || piece.find('\0') != std::string::npos) {
      fail("llama2.c cannot store piece {} (\"{}\"): it supports neither user-defined pieces nor zero bytes", id,
           core::printable(piece));
    }
    to.pieces.push_back(marks_to_spaces(piece));
    to.source_row.push_back(static_cast<int32_t>(id));
    if (id >= kFirstByte && id < kFirstPiece && !is_byte_piece(to.pieces.back(), id)) {
      fail("llama2.c requires token {} to be the byte {}; in this vocabulary it is \"{}\"", id, id - kFirstByte,
           core::printable(piece));
    }
  }
  to.pieces[kBos] = kBosPiece;
  to.pieces[kEos] = kEosPiece;
  to.scores = from.scores;
  return to;
}

}  // namespace

Llama2cVocabulary to_llama2c(const Tokenizer& tokenizer) {
  if (const auto* characters = dynamic_cast<const CharTokenizer*>(&tokenizer)) return of_characters(*characters);
  const auto* pieces = dynamic_cast<const SentencePieceTokenizer*>(&tokenizer);
  require(pieces != nullptr, "llama2.c cannot store a {} tokenizer", tokenizer.kind());
  return of_pieces(*pieces);
}

void write_llama2c_tokenizer(const std::filesystem::path& path, const Llama2cVocabulary& vocabulary) {
  std::string bytes;
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  size_t longest = 0;
  for (const std::string& piece : vocabulary.pieces) longest = std::max(longest, piece.size());
  put(static_cast<int32_t>(longest));
  for (size_t id = 0; id < vocabulary.pieces.size(); ++id) {
    put(vocabulary.scores.at(id));
    put(static_cast<int32_t>(vocabulary.pieces[id].size()));
    bytes += vocabulary.pieces[id];
  }
  core::write_file_atomically(path, bytes);
}

SentencePieceTokenizer read_llama2c_tokenizer(const std::filesystem::path& path, int64_t vocab_size) {
  const std::string where = path.string();
  const core::MappedFile file(path);
  PieceReader in(file);
  const auto longest = in.number<int32_t>(0);
  SentencePieceVocabulary v;
  for (size_t id = 0; in.remaining() > 0; ++id) {
    if (vocab_size > 0 && std::cmp_equal(id, vocab_size)) {
      fail("{}: {} bytes are left after the {} tokens of the model; use the tokenizer.bin of this model", where,
           in.remaining(), vocab_size);
    }
    v.scores.push_back(in.number<float>(id));
    const auto length = in.number<int32_t>(id);
    if (length > longest) in.fail_at(id, fmt::format("has {} bytes, more than the longest's {}", length, longest));
    std::string piece = in.text(length, id);
    if (id == kBos && piece == kBosPiece) piece = "<s>";
    if (id == kEos && piece == kEosPiece) piece = "</s>";
    const bool of_byte = id >= kFirstByte && id < kFirstPiece;
    if (of_byte && !is_byte_piece(piece, id)) {
      in.fail_at(id, fmt::format("is \"{}\", but must be the byte {}", core::printable(piece), id - kFirstByte));
    }
    v.types.push_back(id == kUnknown                       ? PieceType::Unknown
                      : id < kFirstByte                    ? PieceType::Control
                      : of_byte && parse_byte_piece(piece) ? PieceType::Byte
                                                           : PieceType::Normal);
    v.pieces.push_back(spaces_to_marks(piece));
  }
  const size_t n = v.pieces.size();
  require(n >= kFirstPiece, "{}: {} tokens are fewer than the 259 of every llama2.c vocabulary", where, n);
  require(vocab_size <= 0 || std::cmp_equal(n, vocab_size), "{}: {} tokens, but the model has {}", where, n,
          vocab_size);
  return {std::move(v), where};
}

}  // namespace folio::data
