// Tokenizes documents into one sequence with <|endoftext|> between documents, and summarizes their contents.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
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
  std::string digest;  ///< of the texts, joined by kDocumentEnd; equals the digest of a single plain text
  uint64_t n_bytes = 0;
  uint64_t n_documents = 0;
  std::vector<std::string> characters{};  ///< distinct, in the order of their code points
};

/// Reads all documents once. Throws core::Error with line and column if one is not UTF-8, or if there is no text.
[[nodiscard]] DocumentsSummary summarize(const Documents& documents);

/// Adds words of the texts to `counts` until these cover `n_bytes`. `progress` is as in Documents::read_together().
[[nodiscard]] WordCounts count_words(const Documents& documents, uint64_t n_bytes, WordCounts counts,
                                     core::ThreadPool& pool, const std::function<void(uint64_t)>& progress = {});

/// The tokens of documents, in memory or in a mapped file.
class DocumentTokens {
 public:
  struct Options {
    /// Where tokens of long texts are stored: a file tokens-HASH.u16 or .u32 that contains only little-endian integers.
    /// It is written once for each combination of texts and tokenizer, which the hash identifies.
    std::filesystem::path folder{};
    uint64_t in_memory = uint64_t{64} << 20U;  ///< texts up to this many bytes need no file
    bool progress = false;                     ///< prints a line to stderr while a file is written
  };
  /// Throws core::Error if the tokenizer cannot encode a text, or if the file cannot be written.
  DocumentTokens(const Documents& documents, const DocumentsSummary& summary, const Tokenizer& tokenizer,
                 const Options& options);

  [[nodiscard]] TokenView view() const { return view_; }

 private:
  std::vector<int32_t> tokens_;
  std::optional<core::MappedFile> file_;
  TokenView view_;
};

}  // namespace folio::data
