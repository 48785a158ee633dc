// Caches an engine's compiled constraints (forms) by request options, so that a repeated schema isn't compiled again
// and its token masks can be reused.
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

/// Compiles output constraints to forms and caches them. The cache is thread-safe, but its forms are not: only the
/// engine's thread may use a form.
class FormCache {
 public:
  /// `tokenizer` must outlive the cache. Beyond `capacity` forms, the least recently used form is evicted; requests
  /// that hold a pointer to it can still use it.
  explicit FormCache(const data::Tokenizer& tokenizer, size_t capacity = 64)
      : tokenizer_(tokenizer), capacity_(capacity) {}

  /// Returns the form for `options`, from the cache or newly compiled; null for kind None. Throws core::Error if the
  /// constraint is invalid or compiling it exceeds `budget` (see make_form()). Failures aren't cached.
  [[nodiscard]] std::shared_ptr<Form> form(const FormOptions& options,
                                           const core::WorkBudget& budget = core::WorkBudget());

 private:
  using Entry = std::pair<std::string, std::shared_ptr<Form>>;

  const data::Tokenizer& tokenizer_;
  size_t capacity_;
  std::mutex mutex_;
  std::shared_ptr<const TokenTree> tokens_;  ///< built for the first form
  std::list<Entry> entries_;                 ///< most recently used first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace folio::infer::forms
