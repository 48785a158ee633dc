// The forms of one engine, kept by what was asked for: the second request with a schema pays nothing for it, and its
// masks are known already.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "data/tokenizers/tokenizer.h"
#include "infer/forms/forms.h"

namespace folio::infer::forms {

/// For several threads. A form that it gives is used by the thread of its engine alone.
class FormCache {
 public:
  /// `tokenizer` has to outlive it. Of more than `capacity` forms it forgets the one that was not asked for longest;
  /// who holds that one keeps it.
  explicit FormCache(const data::Tokenizer& tokenizer, size_t capacity = 64)
      : tokenizer_(tokenizer), capacity_(capacity) {}

  /// None of kind None. Throws core::Error as make_form() does; what was refused is not kept. A form that is known
  /// costs its key's bytes.
  [[nodiscard]] std::shared_ptr<Form> form(const FormOptions& options,
                                           const core::WorkBudget& budget = core::WorkBudget());

 private:
  using Entry = std::pair<std::string, std::shared_ptr<Form>>;

  const data::Tokenizer& tokenizer_;
  size_t capacity_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTree> tokens_;  ///< made for the first form
  std::list<Entry> entries_;                 ///< the last one that was asked for is in front
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace folio::infer::forms
