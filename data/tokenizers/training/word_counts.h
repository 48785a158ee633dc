// Counts how often each word of a text occurs, as split by a pre-tokenizer. Byte-pair encoding needs only these counts,
// so memory use depends on the number of distinct words, not on the length of the text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/thread_pool.h"
#include "data/tokenizers/pre_tokenizer.h"

namespace folio::data {

class WordCounts {
 public:
  struct Word {
    std::string_view bytes;
    uint64_t count;
  };

  /// Splits text into words by the pre-tokenizer `kind`, after normalizing it to NFC if `nfc` is set.
  explicit WordCounts(PreTokenizer kind, bool nfc = false) : kind_(kind), nfc_(nfc) {}

  /// Counts the words of `texts`, which are documents, or parts of documents cut at word_border(). Throws core::Error,
  /// prefixed with `where`, if a text is not UTF-8.
  void add(std::span<const std::string_view> texts, core::ThreadPool& pool, const std::string& where);

  /// Returns the distinct words in arbitrary order, valid until the next add().
  [[nodiscard]] std::vector<Word> words() const;
  [[nodiscard]] size_t n_words() const { return table_.words.size(); }  ///< distinct words
  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }           ///< total size of the texts

 private:
  // A hash table of words with open addressing. The bytes of all words are concatenated.
  struct Table {
    struct Entry {
      uint64_t hash;
      uint64_t offset;
      uint64_t length;
      uint64_t count;
    };
    void add(std::string_view word, uint64_t count);
    void grow();
    [[nodiscard]] std::string_view bytes_of(const Entry& word) const {
      return std::string_view(bytes).substr(word.offset, word.length);
    }

    std::string bytes;
    std::vector<Entry> words;
    std::vector<uint32_t> slots = std::vector<uint32_t>(4096);  ///< 1 + index in `words`; 0 if the slot is free
  };

  void count(std::string_view text, Table& into) const;

  PreTokenizer kind_;
  bool nfc_;
  Table table_;
  uint64_t n_bytes_ = 0;
};

}  // namespace folio::data
