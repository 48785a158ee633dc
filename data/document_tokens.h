// Tokenizes documents into one sequence with <|endoftext|> between documents, and computes their size and hash.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/mapped_file.h"
#include "core/thread_pool.h"
#include "data/documents.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/training/word_counts.h"
#include "data/tokens.h"

namespace folio::data {

/// A 64-bit hash (FNV-1a) in hexadecimal. It detects changes, but is not cryptographic.
class Digest {
 public:
  void add(std::string_view bytes);
  [[nodiscard]] std::string hex() const;

 private:
  uint64_t hash_ = 0xCBF29CE484222325ULL;
};

struct DocumentsSummary {
  std::string digest;  ///< hash in hexadecimal (Digest) of all texts, joined by <|endoftext|>
  uint64_t n_bytes = 0;
  uint64_t n_documents = 0;
  std::vector<std::string> characters{};  ///< distinct characters, sorted by code point
};

/// Returns the summary of all documents. Throws core::Error with line and column if the text is not UTF-8, or if all
/// documents are empty.
[[nodiscard]] DocumentsSummary summarize(const Documents& documents);

/// Adds words of the documents to `counts` until counts.n_bytes() reaches `n_bytes` or the text ends. Returns the
/// updated `counts`. Calls progress(n), if set, with the number of bytes read so far.
[[nodiscard]] WordCounts count_words(const Documents& documents, uint64_t n_bytes, WordCounts counts,
                                     core::ThreadPool& pool, const std::function<void(uint64_t)>& progress = {});

/// Receives tokens. `begins` is true for the first tokens of a document.
using TokenSink = std::function<void(std::span<const int32_t> tokens, bool begins)>;

/// Encodes the documents on all threads, long ones in parts that do not change their tokens. Passes the tokens of all
/// parts to `sink` in order, and each piece that was read to `on_piece`.
void encode_documents(const Documents& documents, const Tokenizer& tokenizer, const TokenSink& sink,
                      const std::function<void(const Documents::Piece&)>& on_piece);

/// The tokens of documents, in memory or in a mapped file.
class DocumentTokens {
 public:
  struct Options {
    /// Folder for files with the tokens of long texts; if empty, all tokens are kept in memory. A file tokens-HASH.u16
    /// or .u32 (little-endian integers) is written once per combination of texts and tokenizer, identified by the hash.
    std::filesystem::path folder{};
    uint64_t in_memory = uint64_t{64} << 20U;  ///< tokens of texts up to this many bytes stay in memory
    bool progress = false;                     ///< show progress on stderr while a file is written
  };
  /// Encodes the documents, or maps an existing file. `summary` must be summarize(documents). Throws core::Error if
  /// encoding or writing the file fails.
  DocumentTokens(const Documents& documents, const DocumentsSummary& summary, const Tokenizer& tokenizer,
                 const Options& options);

  [[nodiscard]] TokenView view() const { return view_; }

 private:
  std::vector<int32_t> tokens_;
  std::optional<core::MappedFile> file_;
  TokenView view_;
};

}  // namespace folio::data
