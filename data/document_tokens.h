// From documents to tokens: what is in them, and the tokens one after the other, with <|endoftext|> between documents.
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

/// A 64-bit hash (FNV-1a) in hexadecimal digits. It detects changes, but is not cryptographic.
class Digest {
 public:
  void add(std::string_view bytes);
  [[nodiscard]] std::string hex() const;

 private:
  uint64_t hash_ = 0xCBF29CE484222325ULL;
};

struct DocumentsSummary {
  std::string digest;  ///< of the texts with kDocumentEnd between them; of one plain text its own
  uint64_t n_bytes = 0;
  uint64_t n_documents = 0;
  std::vector<std::string> characters{};  ///< distinct ones, in the order of their code points
};

/// Reads all of them once. Throws core::Error, with line and column, if one is not UTF-8, or if there is no text.
[[nodiscard]] DocumentsSummary summarize(const Documents& documents);

/// Adds the words of the first `n_bytes` of the texts to `counts`. `progress` is as Documents::read_together() has it.
[[nodiscard]] WordCounts count_words(const Documents& documents, uint64_t n_bytes, WordCounts counts,
                                     core::ThreadPool& pool, const std::function<void(uint64_t)>& progress = {});

/// Tokens in memory or in a file.
class DocumentTokens {
 public:
  struct Options {
    /// Where the tokens of long texts are kept: a file tokens-HASH.u16 or .u32, of little-endian numbers and nothing
    /// else. It is made once: the hash is of the texts and the tokenizer.
    std::filesystem::path folder{};
    uint64_t in_memory = uint64_t{64} << 20U;  ///< texts of so many bytes at most need no file
    bool progress = false;                     ///< a line on stderr, while a file is made
  };
  /// Throws core::Error where the tokenizer has no tokens for a text, or the file can't be written.
  DocumentTokens(const Documents& documents, const DocumentsSummary& summary, const Tokenizer& tokenizer,
                 const Options& options);

  [[nodiscard]] TokenView view() const { return view_; }

 private:
  std::vector<int32_t> tokens_;
  std::optional<core::MappedFile> file_;
  TokenView view_;
};

}  // namespace folio::data
