// How often each word of a text occurs, where words are a pre-tokenizer's. That is all that byte-pair encoding needs of
// a text, so memory goes by its distinct words and not by its length.
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

  /// `nfc`: texts are normalized first (nfc.h).
  explicit WordCounts(PreTokenizer kind, bool nfc = false) : kind_(kind), nfc_(nfc) {}

  /// The words of `texts`: documents, or parts of them between two word_border()s. Throws core::Error that begins with
  /// `where` if one is not UTF-8.
  void add(std::span<const std::string_view> texts, core::ThreadPool& pool, const std::string& where);

  /// In no order. Valid until the next add().
  [[nodiscard]] std::vector<Word> words() const;
  [[nodiscard]] size_t n_words() const { return table_.words.size(); }  ///< distinct ones
  [[nodiscard]] uint64_t n_bytes() const { return n_bytes_; }           ///< of all texts

 private:
  // Words by their hash: open addressing. Their bytes lie one after the other.
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
    std::vector<uint32_t> slots = std::vector<uint32_t>(4096);  ///< 1 + the index of a word; 0: free
  };

  void count(std::string_view text, Table& into) const;

  PreTokenizer kind_;
  bool nfc_;
  Table table_;
  uint64_t n_bytes_ = 0;
};

}  // namespace folio::data
